"""Other people's tests as parts of ./dev test: CPython's test.test_asyncio and uvloop's suite.

The runners in tests/conformance do the work and leave their counts in a JSON file; here they become
tallies. An interpreter without its test package is a skip with that reason.
"""
from __future__ import annotations

import collections
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
import project
from output import ROOT, Problem, environment, run, say
from report import Tally

if TYPE_CHECKING:
    from project import Build
    from suites import Context

FOLDER = ROOT / "tests" / "conformance"
RESULTS = ROOT / "build" / "results"
DENIED = "--deny-uring EPERM"
LIMIT_S = 900


def main(context: Context) -> list[Tally]:
    """What a plain ./dev test holds: the suite of the first interpreter, and uvloop's."""
    build = context.build("dev")
    return _cpython(build) + _uvloop(build)


def everything_else(context: Context) -> list[Tally]:
    """Both again with io_uring denied, and the suites of the other interpreters."""
    build = context.build("dev")
    tallies = _cpython(build, DENIED) + _uvloop(build, DENIED)
    for interpreter in context.interpreters[1:]:
        try:
            tallies += _cpython(context.build("dev", interpreter))
        except Problem as problem:
            say(str(problem))
            tallies.append(Tally(f"test_asyncio {interpreter.version}", failed=1))
    return tallies


def _cpython(build: Build, launch: str = "") -> list[Tally]:
    part = f"test_asyncio {build.interpreter.version}" + (" denied" if launch else "")
    missing = _missing_tests(build)
    if missing is not None:
        return [Tally(part, skipped=1, reasons=collections.Counter([missing]))]
    return [_runner(part, [str(build.python), str(FOLDER / "cpython" / "run.py")], launch,
                    build.environment())]


def _uvloop(build: Build, launch: str = "") -> list[Tally]:
    project.virtual_environment(build.interpreter, "conformance")
    part = f"uvloop's suite {build.interpreter.version}" + (" denied" if launch else "")
    return [_runner(part, [str(build.python), str(FOLDER / "uvloop_suite" / "run.py")], launch,
                    build.environment())]


def _missing_tests(build: Build) -> str | None:
    """Why the interpreter's own tests can't be run; Debian's come in a package of their own."""
    for _ in range(2):
        found = subprocess.run([str(build.python), "-c", "import test.test_asyncio"],
                               capture_output=True, env=environment(), check=False).returncode == 0
        if found:
            return None
        if not build.interpreter.path.startswith("/usr/bin/"):
            break
        try:
            machine.install((f"libpython{build.interpreter.version}-testsuite",))
        except Problem as problem:
            return f"no test package: {problem}"
    return f"Python {build.interpreter.version} came without its test package"


def _runner(part: str, command: list[str], launch: str, env: dict[str, str]) -> Tally:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / (part.replace(" ", "-").replace("'", "") + ".json")
    path.unlink(missing_ok=True)
    options = [f"--launch={launch}"] if launch else []
    run([*command, f"--json={path}", *options], env=env, timeout_s=LIMIT_S)
    return of_result(part, path)


def of_result(part: str, path: Path) -> Tally:
    """From a runner's JSON; a run that died without one counts as one failure."""
    if not path.exists():
        return Tally(part, failed=1, faults=["the run left no result"])
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    reasons = collections.Counter({f"{part}: {reason}": count
                                   for reason, count in result["skipped"].items()})
    return Tally(part, passed=result["passed"], failed=len(result["faults"]),
                 skipped=reasons.total(), reasons=reasons,
                 faults=[fault[:800] for fault in result["faults"]])
