"""CPython's own test.test_asyncio on ringloop's loop, against the list of what must pass.

    run.py [--json FILE] [--update] [--modules a,b] [--launch "--deny-uring EPERM"]

Run by the interpreter under test, with the package importable. Each module runs in a process of its
own, two at a time; a process that dies or stays silent costs the test it was in, and the rest goes
on in a new one. A test that failed runs once more, alone, as CPython's own runner does it with -w:
a pass then counts, and is shown. The list is the file MAJOR.MINOR.toml beside this one.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parents[1] / "faults" / "launch.py"
SLOWDOWN = float(os.environ.get("RINGLOOP_TEST_SLOWDOWN", "1"))
TEST_LIMIT_S = 30 * SLOWDOWN
MODULE_LIMIT_S = 240 * SLOWDOWN
AT_A_TIME = 2
LONGEST_FIRST = ("test_tasks", "test_subprocess", "test_ssl", "test_events")


@dataclasses.dataclass
class Module:
    name: str
    tests: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    fixtures: list[str] = dataclasses.field(default_factory=list)    # that failed, with traceback
    second_try: list[str] = dataclasses.field(default_factory=list)  # passed only then
    absent: str = ""
    seconds: float = 0.0

    def count(self, outcome: str) -> int:
        return sum(test["outcome"] == outcome for test in self.tests.values())

    @property
    def on_loop(self) -> int:
        return sum(test["outcome"] == "passed" and test["on_loop"] for test in self.tests.values())


class Process:
    """One child: its orders, and what it reported until it ended or was ended."""

    def __init__(self, module: str, expected: dict[str, Any], launch: list[str],
                 only: list[str] | None, skip: set[str]) -> None:
        self.begun: str | None = None
        self.finished = False
        self.lines: list[dict[str, Any]] = []
        def own(key: str) -> list[str]:
            return [name.removeprefix(f"{module}.") for name in expected[key]
                    if name.startswith(f"{module}.")]

        orders = {"module": module, "limit_s": TEST_LIMIT_S, "only": only, "bind": own("bind"),
                  "selector": own("selector"), "skip": sorted(skip | set(own("skip")))}
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            self._run(orders, Path(folder), launch)

    def _run(self, orders: dict[str, Any], folder: Path, launch: list[str]) -> None:
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        report = folder / "report.jsonl"
        report.touch()
        command = [*launch, sys.executable, str(HERE / "child.py"), str(folder / "orders.json"),
                   str(report)]
        with open(folder / "output", "w+b") as output, open(report, encoding="utf-8") as lines:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, cwd=folder, start_new_session=True,
                                       env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            self.code = self._watch(process, lines)
            output.seek(0)
            self.output = output.read()[-3000:].decode("utf-8", "replace")

    def _watch(self, process: subprocess.Popen[bytes], report: Any) -> int | str:
        last = time.monotonic()
        end = last + MODULE_LIMIT_S
        code: int | str | None = None
        while code is None:
            try:
                code = process.wait(0.1)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if now > end or now - last > 2 * TEST_LIMIT_S:
                    code = "ended after its time"
            if self._take(report):
                last = time.monotonic()
        try:
            os.killpg(process.pid, signal.SIGKILL)      # with what its tests left behind
        except ProcessLookupError:
            pass    # nothing was left
        process.wait()
        return code

    def _take(self, report: Any) -> bool:
        found = False
        while True:
            at = report.tell()
            line = report.readline()
            if not line.endswith("\n"):
                report.seek(at)
                return found
            found = True
            entry = json.loads(line)
            self.lines.append(entry)
            self.begun = entry.get("begin", None if "end" in entry else self.begun)
            self.finished = self.finished or "finished" in entry


def run_module(name: str, expected: dict[str, Any], launch: list[str],
               only: list[str] | None = None) -> Module:
    module = Module(name)
    begin = time.monotonic()
    for _ in range(20):
        process = Process(name, expected, launch, only, set(module.tests))
        for line in process.lines:
            if "end" in line:
                module.tests[line["end"]] = line
            elif "fixture" in line:
                module.fixtures.append(f"{line['fixture']}: {line['text']}")
            module.absent = line.get("absent", module.absent)
        if process.finished or module.absent:
            break
        what = f"the process: {process.code}\n{process.output}"
        if process.begun is None:
            module.fixtures.append(what)
            break
        module.tests[process.begun] = {"outcome": "failed", "text": what, "on_loop": True}
        if time.monotonic() - begin > MODULE_LIMIT_S:
            module.fixtures.append(f"no end after {MODULE_LIMIT_S:.0f} s")
            break
    failed = [test for test, line in module.tests.items() if line["outcome"] == "failed"]
    if failed and only is None:
        again = run_module(name, expected, launch, failed)
        module.second_try = [test for test in failed
                             if again.tests.get(test, {}).get("outcome") == "passed"]
        module.tests.update({test: again.tests[test] for test in module.second_try})
    module.seconds = time.monotonic() - begin
    return module


def complaints(module: Module, expected: dict[str, Any]) -> list[str]:
    """What is wrong with this module's result, one sentence each."""
    found = [f"{module.name}.{test}: {line['text'].strip()[-600:]}"
             for test, line in module.tests.items() if line["outcome"] == "failed"]
    found += [f"{module.name}: {text.strip()[-600:]}" for text in module.fixtures]
    wish = expected["modules"].get(module.name)
    if module.absent:
        return found + ([f"{module.name} cannot be imported: {module.absent}"] if wish else [])
    if wish is None:
        return [*found, f"{module.name} is not in the list; run.py --update adds it"]
    older = release(platform.python_version()) < release(expected["python"])
    for what, count in (("passed", module.count("passed")), ("on_loop", module.on_loop)):
        if count < wish[what] and not older:    # an older release may have fewer tests
            found.append(f"{module.name}: {what} fell from {wish[what]} to {count}")
    return found


def release(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def updated(text: str, modules: list[Module]) -> str:
    """The list with this run's counts, everything else as it is."""
    lines = [f"{module.name} = {{ passed = {module.count('passed')}, on_loop = {module.on_loop} }}"
             for module in sorted(modules, key=lambda each: each.name) if not module.absent]
    text = re.sub(r'(?m)^python = ".*"$', f'python = "{platform.python_version()}"', text)
    return re.sub(r"(?ms)^\[modules\]\n.*?(?=^\[|\Z)",
                  lambda _: "[modules]\n" + "\n".join(lines) + "\n\n", text).rstrip() + "\n"


def _names(expected: dict[str, Any], wish: str) -> list[str]:
    package = importlib.util.find_spec("test.test_asyncio")
    assert package is not None and package.submodule_search_locations is not None
    folder = Path(next(iter(package.submodule_search_locations)))
    found = sorted(path.stem for path in folder.glob("test_*.py")
                   if path.stem not in expected["not_run"])
    found += sorted(set(expected["modules"]) - set(found))
    if wish:
        found = [name for name in found if name in wish.split(",")]
    return sorted(found, key=lambda name: name not in LONGEST_FIRST)


def _line(module: Module) -> str:
    if module.absent:
        return f"{module.name:<24} not here: {module.absent}"
    again = f", on the second try: {' '.join(module.second_try)}" if module.second_try else ""
    return (f"{module.name:<24} {module.count('passed'):>5} passed, {module.on_loop} on the loop, "
            f"{module.count('failed')} failed, {module.count('skipped')} skipped, "
            f"{module.seconds:.0f} s{again}")


def _result(modules: list[Module], wrong: list[str]) -> dict[str, Any]:
    reasons = collections.Counter(line["text"] for module in modules
                                  for line in module.tests.values() if line["outcome"] == "skipped")
    return {"passed": sum(module.count("passed") for module in modules),
            "on_loop": sum(module.on_loop for module in modules),
            "skipped": dict(reasons), "faults": wrong,
            "second_try": [f"{each.name}.{test}" for each in modules for test in each.second_try]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, help="write the counts and faults here")
    parser.add_argument("--update", action="store_true", help="write this run's counts to the list")
    parser.add_argument("--modules", default="", help="only these, separated by commas")
    parser.add_argument("--launch", default="", help="options of tests/faults/launch.py")
    options = parser.parse_args()
    path = HERE / f"{sys.version_info[0]}.{sys.version_info[1]}.toml"
    expected = tomllib.loads(path.read_text(encoding="utf-8"))
    launch = [sys.executable, str(LAUNCH), *shlex.split(options.launch), "--"] \
        if options.launch else []
    names = _names(expected, options.modules)
    modules, wrong = [], []
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(run_module, name, expected, launch) for name in names]
        for each in concurrent.futures.as_completed(running):
            module = each.result()
            modules.append(module)
            print(_line(module), flush=True)
            wrong += complaints(module, expected)
    for each in wrong:
        print("WRONG " + each)
    if options.update:
        path.write_text(updated(path.read_text(encoding="utf-8"), modules), encoding="utf-8")
    result = _result(modules, wrong)
    if options.json:
        options.json.write_text(json.dumps(result), encoding="utf-8")
    print(f"{result['passed']} passed, {result['on_loop']} of them on the loop, "
          f"{len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
