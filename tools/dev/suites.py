"""./dev test: the parts, what each runs, and in which build.

A part is a function from a Context to tallies. It never stops the others: a failed build or a
crash is counted as a failure of that part, and the run goes on.
"""
from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable

import ahead
import conformance
import machine
import project
import report
from machine import Interpreter
from output import ROOT, Problem, environment, run, say
from report import Tally

RESULTS = ROOT / "build" / "results"
TSAN_REPORTS = RESULTS / "tsan"

# After that a run of pytest has hung. Each test has a limit of its own, and machines are slow.
PYTEST_LIMIT_S = 3600.0


@dataclasses.dataclass
class Context:
    interpreters: list[Interpreter]
    all: bool = False
    options: tuple[str, ...] = ()      # after "--", for pytest or the C++ programs
    builds: dict[tuple[str, str], project.Build | Problem] = dataclasses.field(
        default_factory=dict)

    def build(self, preset: str, interpreter: Interpreter | None = None,
              **arguments: object) -> project.Build:
        interpreter = interpreter or self.interpreters[0]
        key = (preset, interpreter.version)
        if key not in self.builds:
            try:
                self.builds[key] = project.build(preset, interpreter, "demo", **arguments)
            except Problem as problem:
                self.builds[key] = problem      # once is enough for all parts
        made = self.builds[key]
        if isinstance(made, Problem):
            raise made
        return made


def _tee(command: list[str], env: dict[str, str], timeout_s: float) -> tuple[str, int]:
    """Runs it with its output shown and kept."""
    lines = []
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        killer = threading.Timer(timeout_s, process.kill)
        killer.start()
        try:
            for line in process.stdout or ():
                sys.stdout.write(line)
                lines.append(line)
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            killer.cancel()
    sys.stdout.flush()
    return "".join(lines), code


def catch(context: Context, suite: str, preset: str = "dev", timeout_s: float = 900) -> list[Tally]:
    part = suite if preset == "dev" else f"{suite} ({preset})"
    build = context.build(preset)
    program = build.folder / "tests" / f"test_{suite}"
    if not program.exists():
        if not any((ROOT / "tests" / suite).glob("*.cpp")):
            return []
        return [Tally(part, failed=1, faults=[f"{program} was not built"])]
    command = [*plain_layout(preset), str(program), *context.options]
    env = build.environment(**sanitizer_options(preset), **_seeds(context, suite, preset))
    text, code = _tee(command, env, timeout_s * (10 if context.all else 1))
    return [report.of_catch(part, text, code)]


def _seeds(context: Context, suite: str, preset: str) -> dict[str, str]:
    """How many random simulated runs, where the suite's own default is not meant."""
    if context.all:
        count = {"sim": 200_000 if preset == "dev" else 10_000, "python": 1_000}.get(suite)
    else:
        count = {"sim": 1_000, "python": 10}.get(suite) if preset != "dev" else None
    found = {"RINGLOOP_SIM_SEEDS": str(count)} if count else {}
    if preset != "dev" and suite == "python" and not context.all:
        found["RINGLOOP_SIM_STRIDE"] = "9"
    return found


def plain_layout(preset: str) -> list[str]:
    """TSan wants a process without randomized addresses."""
    wanted = preset.startswith("tsan") and shutil.which("setarch")
    return ["setarch", platform.machine(), "-R"] if wanted else []


def sanitizer_options(preset: str) -> dict[str, str]:
    suppressions = ROOT / "tests" / "tsan.supp"
    kept = ROOT / "tests" / "lsan.supp"
    suppressed = f":suppressions={suppressions}" if suppressions.exists() else ""
    return {
        "asan": {"ASAN_OPTIONS": "detect_stack_use_after_return=1:detect_leaks=1",
                 "LSAN_OPTIONS": f"suppressions={kept}:print_suppressions=0",
                 "UBSAN_OPTIONS": "print_stacktrace=1"},
        "tsan": {"TSAN_OPTIONS": f"halt_on_error=1:second_deadlock_stack=1{suppressed}"},
        # A report goes to a file: pytest would keep what a passed test prints to itself.
        "tsan-python": {"TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1:exitcode=0:"
                                        f"log_path={TSAN_REPORTS}/race{suppressed}"},
    }.get(preset, {})


def preloads(preset: str) -> dict[str, str]:
    """A stock Python finds the sanitizer's runtime only if it is loaded first."""
    library = {"asan": "libasan.so", "tsan-python": "libtsan.so"}.get(preset)
    if library is None:
        return {}
    compiler = os.environ.get("CXX", "g++")
    names = [subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True,
                            check=True).stdout.strip() for name in (library, "libstdc++.so")]
    return {"LD_PRELOAD": " ".join(os.path.realpath(name) for name in names),
            "PYTHONMALLOC": "malloc"}


def pytest(context: Context, part: str, paths: list[str], build: project.Build, *,
           extra: tuple[str, ...] = (), **env: str) -> list[Tally]:
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = RESULTS / (part.replace(" ", "-").replace("/", "-") + ".xml")
    result.unlink(missing_ok=True)
    changes = {**sanitizer_options(build.preset), **preloads(build.preset), **env}
    layout = plain_layout(build.preset)
    if layout:      # setarch itself must not load what wants the layout that it makes
        layout += ["env", f"LD_PRELOAD={changes.pop('LD_PRELOAD')}"]
    command = [*layout, str(build.python), "-m", "pytest", "-c", str(ROOT / "pyproject.toml"),
               f"--rootdir={ROOT}", f"--junitxml={result}", "-o", f"cache_dir={ROOT}/.cache/pytest",
               *extra, *context.options, *paths]
    code = run(command, env=build.environment(**changes), timeout_s=PYTEST_LIMIT_S)
    return [report.of_pytest(part, result, code)]


# The Python suite waits more than it computes: two processes halve it even on two cores.
SPREAD = ("-n", "2", "--dist", "worksteal")


def _narrow(context: Context) -> dict[str, str]:
    """The slow builds and modes run the Python suite on one backend and under one foreign loop;
    with --all on every."""
    return {} if context.all else {"RINGLOOP_TEST_BACKENDS": "auto",
                                   "RINGLOOP_TEST_GUESTS": "asyncio"}


def _but_slow(context: Context) -> tuple[str, ...]:
    """Without the modules that are slow there and hardly lead into native code of their own."""
    return () if context.all else tuple(f"--ignore=tests/python/test_{name}.py" for name in
                                        ("batched", "bridge_build", "bridge_nanobind",
                                         "coalesce", "fs_watch", "host", "loop_as_stock",
                                         "loop_guests", "loop_resolve", "mixin", "print_tasks",
                                         "run", "service", "signatures", "tls_close",
                                         "tls_refused", "tls_start"))


def part_python(context: Context) -> list[Tally]:
    tallies = []
    for interpreter in context.interpreters:
        build = context.build("dev", interpreter)
        tallies += pytest(context, f"python {interpreter.version}", ["tests/python"], build,
                          extra=SPREAD, **_seeds(context, "python", "dev"))
    return tallies


def part_python_debug(context: Context) -> list[Tally]:
    return pytest(context, "python debug mode", ["tests/python"], context.build("dev"),
                  PYTHONASYNCIODEBUG="1", PYTHONDEVMODE="1", PYTHONWARNINGS="error",
                  **_narrow(context),
                  extra=(*SPREAD, *_but_slow(context),
                         "--ignore=tests/python/test_simulation.py"))


def part_asan(context: Context) -> list[Tally]:
    tallies = []
    for suite in ("unit", "sim", "kernel"):
        tallies += catch(context, suite, "asan")
    return tallies + pytest(context, "python (asan)", ["tests/python"], context.build("asan"),
                            extra=(*SPREAD, *_but_slow(context)), RINGLOOP_TEST_SLOWDOWN="5",
                            **_narrow(context),
                            **_seeds(context, "python", "asan"))


def part_fuzz(context: Context) -> list[Tally]:
    """Every target on its seeds and their mutations: forty seconds; a minute each with --all."""
    os.environ.setdefault("RINGLOOP_FUZZ_SECONDS", "60" if context.all else "1.5")
    return catch(context, "fuzz", "asan")


# The runtime alone, as on a machine that has neither Python nor oneTBB.
_ALONE = ("-DRINGLOOP_PYTHON=OFF", "-DRINGLOOP_KERNELS=OFF",
          "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON")


# What a test source mentions if threads meet in it: their own, or the runtime's for blocking calls.
_THREADS = re.compile(r"std::thread|thread_pool|scheduler_pool|offload|resolve|remote_task|fs::")


def _with_threads() -> str:
    """A pattern of the test sources in which threads meet."""
    found = [path.name for suite in ("unit", "kernel")
             for path in sorted((ROOT / "tests" / suite).rglob("*.cpp"))
             if _THREADS.search(path.read_text(encoding="utf-8"))]
    return "/(" + "|".join(name.removesuffix(".cpp") for name in found) + ")[.]cpp$"


def part_tsan(context: Context) -> list[Tally]:
    """All C++ tests with --all; else those in which threads meet, the others have one each."""
    pattern = "" if context.all else _with_threads()
    context.build("tsan", options=(*_ALONE, f"-DRINGLOOP_TESTS_MATCHING={pattern}"))
    tallies = []
    for suite in ("unit", "sim", "kernel") if context.all else ("unit", "kernel"):
        tallies += catch(context, suite, "tsan")
    return tallies + (_tsan_python(context) if context.all else [])


# Where threads meet in the package: posts from other threads, several loops, guests, kernels.
_TSAN_MODULES = ("python/test_loop_calls.py", "python/test_c_table.py", "python/test_guest.py",
                 "python/test_kernels.py", "python/test_batched.py", "python/test_coalesce.py",
                 "python/test_fd_handover.py", "python/test_handle.py", "faults/test_threads.py")


def _tsan_python(context: Context) -> list[Tally]:
    """Under a stock Python. TSan knows its locks (they are pthread's), but not what it does itself,
    and starts no thread in a forked child."""
    build = context.build("tsan-python")
    shutil.rmtree(TSAN_REPORTS, ignore_errors=True)
    TSAN_REPORTS.mkdir(parents=True)
    tallies = pytest(context, "python (tsan)", [f"tests/{name}" for name in _TSAN_MODULES], build,
                     extra=("-k", "not fork"), RINGLOOP_TEST_SLOWDOWN="10")
    for report_path in sorted(TSAN_REPORTS.iterdir()):
        tallies[-1].failed += 1
        tallies[-1].faults.append(report_path.read_text(errors="replace")[:4000])
    return tallies


def part_types(context: Context) -> list[Tally]:
    build = context.build("dev")
    code = run([str(build.python), "-m", "mypy", "--strict", "--cache-dir",
                str(ROOT / ".cache" / "mypy"), "python/ringloop"], env=environment())
    return [report.of_code("types", code)]


def _folder(name: str, **env: str) -> Callable[[Context], list[Tally]]:
    def part(context: Context) -> list[Tally]:
        if not any((ROOT / "tests" / name).glob("test_*.py")):
            return []
        return pytest(context, name, [f"tests/{name}"], context.build("dev"), **env)
    return part


def part_refcounts(context: Context) -> list[Tally]:
    """Each module of the Python suite five times in one process: none may leave more each time."""
    build = context.build("dev")
    env = build.environment(RINGLOOP_TEST_ALL="", RINGLOOP_SIM_SEEDS="10", RINGLOOP_SIM_STRIDE="3")
    tally = Tally("refcounts")
    for module in sorted((ROOT / "tests" / "python").glob("test_*.py")):
        text, code = _tee([str(build.python), str(ROOT / "tests" / "soak" / "refcounts.py"),
                           str(module), *context.options], env, 3600)
        tally.passed += code == 0
        tally.failed += code != 0
        if code != 0:
            tally.faults.append(text[-2000:])
    return [tally]


def part_programs(context: Context) -> list[Tally]:
    """Real programs on the loop, from an environment of their own; servers are Debian's."""
    machine.install(("postgresql", "redis-server"))
    build = context.build("dev")
    python = project.virtual_environment(build.interpreter, "programs")
    return pytest(context, "programs", ["tests/programs"],
                  dataclasses.replace(build, python=python),
                  extra=("-p", "no:asyncio", "-p", "no:anyio"))


# name: (function, part of a plain `./dev test`)
PARTS: dict[str, tuple[Callable[[Context], list[Tally]], bool]] = {
    "tidy": (_folder("tidy"), True),
    "unit": (lambda context: catch(context, "unit"), True),
    "sim": (lambda context: catch(context, "sim"), True),
    "kernel": (lambda context: catch(context, "kernel"), True),
    "model": (lambda context: catch(context, "model"), True),
    "python": (part_python, True),
    "types": (part_types, True),
    "debug": (part_python_debug, True),
    "faults": (_folder("faults"), True),
    "soak": (_folder("soak"), True),
    "asan": (part_asan, True),
    "fuzz": (part_fuzz, True),
    "tsan": (part_tsan, True),
    "docs": (_folder("docs"), True),
    "packaging": (_folder("packaging"), True),
    "examples": (_folder("examples"), True),
    "conformance": (conformance.main, True),
    "conformance_all": (conformance.everything_else, False),
    "programs": (part_programs, False),
    "refcounts": (part_refcounts, False),
}


def check(names: list[str]) -> None:
    """Raises Problem for a part that there is not."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise Problem(f"there is no part {unknown[0]}: {', '.join(PARTS)}")


def test(context: Context, names: list[str]) -> int:
    if context.all:
        os.environ["RINGLOOP_TEST_ALL"] = "1"
    tallies = []
    chosen = [name for name, (_, default) in PARTS.items()
              if name in names or (not names and (default or context.all))]
    early: ahead.BuildAhead | None = None
    for name in chosen:
        function = PARTS[name][0]
        say(f"part {name}")
        begin = time.monotonic()
        if name == "python" and "asan" in chosen:
            early = ahead.BuildAhead("asan", context.interpreters[0])
        if name == "asan" and early is not None:
            early.finish()
        try:
            found = function(context)
        except (Problem, subprocess.CalledProcessError) as error:
            say(f"part {name}: {error}")
            found = [Tally(name, failed=1, faults=[str(error)])]
        if found:
            found[-1].seconds = time.monotonic() - begin
        tallies += found
    return report.summary(tallies)
