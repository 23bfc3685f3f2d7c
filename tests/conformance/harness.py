"""The parent's side of a suite: processes, time limits, second tries, the list of what must pass.

Each module runs in a process of its own, two at a time; a process that dies or stays silent costs
the test it was in, and the rest goes on in a new one. A test that failed runs once more, alone, as
CPython's own runner does it with -w: a pass then counts, and is shown. The list is a TOML file:
python (the release whose counts they are), [modules] with counts that may not fall, [skip] and
[not_run] with a reason for each (a skip "before" a release holds for older ones, one "since" a
release for it and newer ones). No thread but those of the pool; nothing of a suite is imported.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
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

LAUNCH = Path(__file__).resolve().parents[1] / "faults" / "launch.py"
SLOWDOWN = float(os.environ.get("RINGLOOP_TEST_SLOWDOWN", "1"))
TEST_LIMIT_S = 30 * SLOWDOWN
MODULE_LIMIT_S = 240 * SLOWDOWN
PROCESSES_MAX = 20
AT_A_TIME = 2


@dataclasses.dataclass
class Suite:
    """`child`: the script that runs one module; `path`: its list; `names`: its modules."""

    child: Path
    path: Path
    names: list[str]
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    launch: list[str] = dataclasses.field(default_factory=list)
    expected: dict[str, Any] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.expected = tomllib.loads(self.path.read_text(encoding="utf-8"))

    def listed(self, key: str, module: str) -> list[str]:
        return [name.removeprefix(f"{module}.") for name in self.expected.get(key, ())
                if name.startswith(f"{module}.")]

    def skips(self, module: str) -> list[str]:
        """Those whose releases, `since` one and `before` one, hold the running one."""
        here = _release(platform.python_version())
        limits = {name: reason for name, reason in self.expected["skip"].items()
                  if isinstance(reason, dict)}

        def holds(since: str = "0", before: str = "99", **_: str) -> bool:
            return _release(since) <= here < _release(before)

        return [name for name in self.listed("skip", module)
                if holds(**limits.get(f"{module}.{name}", {}))]


@dataclasses.dataclass
class Module:
    name: str
    tests: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    fixtures: list[str] = dataclasses.field(default_factory=list)    # that failed, with traceback
    second_try: list[str] = dataclasses.field(default_factory=list)  # passed only then
    found: set[str] = dataclasses.field(default_factory=set)         # also what was skipped
    absent: str = ""
    seconds: float = 0.0

    def count(self, outcome: str) -> int:
        return sum(test["outcome"] == outcome for test in self.tests.values())

    @property
    def on_loop(self) -> int:
        return sum(test["outcome"] == "passed" and test["on_loop"] for test in self.tests.values())

    def line(self) -> str:
        if self.absent:
            return f"{self.name:<24} not here: {self.absent}"
        again = f", on the second try: {' '.join(self.second_try)}" if self.second_try else ""
        return (f"{self.name:<24} {self.count('passed'):>5} passed, {self.on_loop} on the loop, "
                f"{self.count('failed')} failed, {self.count('skipped')} skipped, "
                f"{self.seconds:.0f} s{again}")


class Process:
    """One child: its orders, and what it reported until it ended or was ended."""

    def __init__(self, suite: Suite, orders: dict[str, Any]) -> None:
        self.begun: str | None = None
        self.finished = False
        self.lines: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            self._run(suite, orders, Path(folder))

    def _run(self, suite: Suite, orders: dict[str, Any], folder: Path) -> None:
        (folder / "orders.json").write_text(json.dumps(orders), encoding="utf-8")
        report = folder / "report.jsonl"
        report.touch()
        command = [*suite.launch, sys.executable, str(suite.child), str(folder / "orders.json"),
                   str(report)]
        environment = {**os.environ, **suite.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        with open(folder / "output", "w+b") as output, open(report, encoding="utf-8") as lines:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, cwd=folder, start_new_session=True,
                                       env=environment)
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


def hear_hangups() -> None:
    """nohup and a script's "&" ignore these signals, for all children: a test that ends its child
    by one would wait in vain. The children's own session keeps a hangup of the terminal away."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)      # not ignored, which exec() would keep


def run_module(suite: Suite, name: str, only: list[str] | None = None) -> Module:
    module = Module(name)
    begin = time.monotonic()
    for _ in range(PROCESSES_MAX):
        process = Process(suite, {
            "module": name, "limit_s": TEST_LIMIT_S, "only": only,
            "bind": suite.listed("bind", name), "selector": suite.listed("selector", name),
            "skip": [*module.tests, *suite.skips(name)]})
        for line in process.lines:
            if "end" in line:
                module.tests[line["end"]] = line
            elif "fixture" in line:
                module.fixtures.append(f"{line['fixture']}: {line['text']}")
            module.absent = line.get("absent", module.absent)
            module.found |= set(line.get("found", ()))
        if process.finished or module.absent:
            break
        what = f"the process: {process.code}\n{process.output}"
        if process.begun is None or time.monotonic() - begin > MODULE_LIMIT_S:
            module.fixtures.append(what)
            break
        module.tests[process.begun] = {"outcome": "failed", "text": what, "on_loop": True}
    failed = [test for test, line in module.tests.items() if line["outcome"] == "failed"]
    if failed and only is None:
        again = run_module(suite, name, failed)
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
    if "own_skips" in expected:
        found += [f"{module.name}.{test}: skipped, which the list does not know: {line['text']}"
                  for test, line in module.tests.items() if line["outcome"] == "skipped"
                  and f"{module.name}.{test}" not in expected["own_skips"]]
    wish = expected["modules"].get(module.name)
    if module.absent:
        return found + ([f"{module.name} cannot be imported: {module.absent}"] if wish else [])
    if wish is None:
        return [*found, f"{module.name} is not in the list; --update adds it"]
    older = _release(platform.python_version()) < _release(expected["python"])
    if platform.python_version() == expected["python"]:
        found += [f"{name} is in the list, but not in the suite"
                  for key in ("skip", "selector", "own_skips") for name in expected.get(key, ())
                  if name.startswith(f"{module.name}.")
                  and name.removeprefix(f"{module.name}.") not in module.found]
    for what, count in (("passed", module.count("passed")), ("on_loop", module.on_loop)):
        if count < wish[what] and not older:    # an older release may have fewer tests
            found.append(f"{module.name}: {what} fell from {wish[what]} to {count}")
    return found


def _release(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def updated(text: str, modules: list[Module]) -> str:
    """The list with this run's counts, everything else as it is."""
    lines = dict(re.findall(r"(?m)^(test_\w+) = (\{.*\})$", text))
    lines |= {module.name: f"{{ passed = {module.count('passed')}, on_loop = {module.on_loop} }}"
              for module in modules if not module.absent}
    text = re.sub(r'(?m)^python = ".*"$', f'python = "{platform.python_version()}"', text)
    table = "".join(f"{name} = {counts}\n" for name, counts in sorted(lines.items()))
    return re.sub(r"(?ms)^\[modules\]\n.*?(?=^\[|\Z)", lambda _: f"[modules]\n{table}\n",
                  text).rstrip() + "\n"


def _result(modules: list[Module], wrong: list[str]) -> dict[str, Any]:
    reasons = collections.Counter(line["text"] for module in modules
                                  for line in module.tests.values() if line["outcome"] == "skipped")
    return {"passed": sum(module.count("passed") for module in modules),
            "on_loop": sum(module.on_loop for module in modules),
            "skipped": dict(reasons), "faults": wrong,
            "second_try": [f"{each.name}.{test}" for each in modules for test in each.second_try]}


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    made.add_argument("--json", type=Path, help="write the counts and faults here")
    made.add_argument("--update", action="store_true", help="write this run's counts to the list")
    made.add_argument("--modules", default="", help="only these, separated by commas")
    made.add_argument("--launch", default="", help="options of tests/faults/launch.py")
    return made


def main(suite: Suite, options: argparse.Namespace) -> int:
    hear_hangups()
    if options.launch:
        suite.launch = [sys.executable, str(LAUNCH), *shlex.split(options.launch), "--"]
    names = [name for name in suite.names
             if not options.modules or name in options.modules.split(",")]
    modules, wrong = [], []
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(run_module, suite, name) for name in names]
        for each in concurrent.futures.as_completed(running):
            module = each.result()
            modules.append(module)
            print(module.line(), flush=True)
            wrong += complaints(module, suite.expected)
    for sentence in wrong:
        print("WRONG " + sentence)
    if options.update:
        suite.path.write_text(updated(suite.path.read_text(encoding="utf-8"), modules),
                              encoding="utf-8")
    result = _result(modules, wrong)
    if options.json:
        options.json.write_text(json.dumps(result), encoding="utf-8")
    print(f"{result['passed']} passed, {result['on_loop']} of them on the loop, "
          f"{len(wrong)} wrong")
    return int(bool(wrong))
