"""The verbs of ./dev. Each prepares what it needs and nothing more, and is safe to repeat."""
from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True

import machine  # noqa: E402
import project  # noqa: E402
import reference  # noqa: E402
import suites   # noqa: E402
from output import ROOT, Problem, run, say  # noqa: E402


def setup(arguments: list[str]) -> int:
    """install Debian packages and the virtual environment(s)"""
    options = _parser("setup").parse_args(arguments)
    chosen = project.set_up("bench", machine.BUILD + machine.TEST, options.python)
    say("ready: " + ", ".join(f".venv-{each.version} ({each.path})" for each in chosen))
    return 0


def build(arguments: list[str]) -> int:
    """[PRESET]   configure and build: dev (default), release, asan, tsan, tsan-python"""
    parser = _parser("build")
    parser.add_argument("preset", nargs="?", default="dev")
    options = parser.parse_args(arguments)
    chosen = project.set_up("dev", machine.BUILD + machine.TEST, options.python)
    for interpreter in chosen:
        project.build(options.preset, interpreter)
    return 0


def test(arguments: list[str]) -> int:
    """[PART…] [--all] [-- ARGS]   run the tests; --all adds the long ones and every Python"""
    parser = _parser("test", epilog="parts: " + ", ".join(suites.PARTS))
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--all", action="store_true", help="also the long tests, on every Python")
    own, rest = _split(arguments)
    options = parser.parse_args(own)
    suites.check(options.parts)
    # A script's "&" and nohup ignore it, for all children: the tests of Ctrl-C would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    wish = options.python or ("all" if options.all and "PYTHON" not in os.environ else None)
    chosen = project.set_up("demo", machine.BUILD + machine.TEST, wish)
    return suites.test(suites.Context(chosen, options.all, tuple(rest)), options.parts)


def demo(arguments: list[str]) -> int:
    """[--seconds N] [--json FILE] [--port N]   the example service under four loops"""
    return _script(ROOT / "bench" / "demo.py", arguments, "demo", machine.BUILD)


def bench(arguments: list[str]) -> int:
    """NAME [--json FILE]   a benchmark: a table and, last, one line ratio=…"""
    names = sorted(path.stem for path in (ROOT / "bench" / "python").glob("*.py")
                   if not path.stem.startswith("_"))
    if not arguments or arguments[0] not in names:
        raise Problem(f"./dev bench NAME, one of: {', '.join(names) or 'none yet'}")
    script = ROOT / "bench" / "python" / f"{arguments[0]}.py"
    if {"-h", "--help"} & set(arguments[1:]):   # a question prepares nothing
        print(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))))
        return 0
    return _script(script, arguments[1:], "bench", machine.BUILD + machine.TEST)


def soak(arguments: list[str]) -> int:
    """[--seconds N] [--lives N] [--seed N]   a long run of all traffic: nothing may be left"""
    return _script(ROOT / "tests" / "soak", arguments, "demo", machine.BUILD)


def python(arguments: list[str]) -> int:
    """ARGS…   the project's interpreter with the package importable (release build)"""
    chosen = project.set_up("dev", machine.BUILD + machine.TEST, None)
    made = _quietly(lambda: project.build("release", chosen[0]))
    os.execve(made.python, [str(made.python), *arguments], made.environment())


def tidy(arguments: list[str]) -> int:
    """what the house rules object to, as FILE:LINE: sentence"""
    return run([sys.executable, "-I", str(ROOT / "tests" / "tidy"), *arguments])


def format_sources(arguments: list[str]) -> int:
    """[--check]   clang-format over the C++ sources"""
    if arguments not in ([], ["--check"]):
        raise Problem("./dev format takes nothing, or --check")
    machine.install(("clang-format", "git"))
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    mode = ["--dry-run", "-Werror"] if "--check" in arguments else ["-i"]
    return run(["clang-format", *mode, *listed]) if listed else 0


def docs(arguments: list[str]) -> int:
    """a reference of the C++ headers, in build/docs"""
    _parser("docs").parse_args(arguments)
    folder = ROOT / "build" / "docs"
    pages = reference.write(folder)
    say(f"{len(pages)} pages; begin with {(folder / 'README.md').relative_to(ROOT)}")
    return 0


VERBS: dict[str, Callable[[list[str]], int]] = {
    "setup": setup, "build": build, "test": test, "demo": demo, "bench": bench, "soak": soak,
    "python": python, "tidy": tidy, "format": format_sources, "docs": docs,
}

_WITHOUT_PARSER = ("demo", "soak", "format")


def _parser(verb: str, **extra: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"./dev {verb}", description=VERBS[verb].__doc__, **extra)
    parser.add_argument("--python", metavar="WHICH",
                        help=f"{', '.join(machine.SUPPORTED)}, a path, or all "
                             "(default: PYTHON= or the first of these that is there)")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def _quietly(function: Callable[[], project.Build]) -> project.Build:
    """What `function` prints goes to stderr: stdout belongs to the user's program."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        return function()
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _script(path: Path, arguments: list[str], wanted: str, packages: tuple[str, ...]) -> int:
    if not path.exists():
        raise Problem(f"{path.relative_to(ROOT)} does not exist in this tree")
    chosen = project.set_up(wanted, packages, None)
    made = project.build("release", chosen[0], wanted)
    os.execve(made.python, [str(made.python), str(path), *arguments], made.environment())


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("./dev VERB …\n")
        for name, verb in VERBS.items():
            print(f"  {name:<8} {verb.__doc__}")
        print("\nPYTHON=/path/to/python picks an interpreter.")
        return 0
    if arguments[0] not in VERBS:
        raise Problem(f"there is no verb {arguments[0]}; ./dev alone lists them")
    if arguments[0] in _WITHOUT_PARSER and {"-h", "--help"} & set(arguments[1:]):
        print(f"./dev {arguments[0]} {VERBS[arguments[0]].__doc__}")   # builds nothing for that
        return 0
    return VERBS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        print(f"./dev: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
