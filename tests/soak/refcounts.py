"""Runs a module of tests several times in one process and looks for what is left each time.

    refcounts.py [--repeats 5] MODULE [PYTEST ARGUMENTS…]

Compared are all references where the interpreter counts them (sys.gettotalrefcount() of a debug
build), those to the objects that the garbage collector knows elsewhere, allocated blocks, open
descriptors, and the package's own ledger. The first repeats fill caches; there is a
leak if the last three each left something more. Who looks guilty is run on as often again, to tell
a leak from caches that were slow to fill: noise does not grow twice. Exit code 1 then, and what
grew; 2 if a test fails.

Collected once, repeated by this file: what pytest keeps of a run (reports, captured output) would
be counted otherwise.
"""
from __future__ import annotations

import argparse
import array
import gc
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "python")]
sys.dont_write_bytecode = True

import pytest                       # noqa: E402

from harness import accounts        # noqa: E402

LAST = 3        # repeats that must each have grown


def references() -> int:
    """To all objects, or to all that the garbage collector knows: types and modules among them."""
    count = getattr(sys, "gettotalrefcount", None)
    return sum(map(sys.getrefcount, gc.get_objects())) if count is None else int(count())


class Repeater:
    """A plug-in: runs the collected tests `repeats` times instead of once."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.failures: list[str] = []
        self.guilty: list[str] = []
        self.tests = 0
        self._rows: dict[str, array.array[int]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # Each uvloop that asyncio.Runner has run leaves five references behind, with nothing of
        # ours in the process: what is flat under the other hosts cannot be told there.
        session.items[:] = [item for item in session.items if "uvloop" not in item.name]
        self.tests = len(session.items)
        if session.testsfailed:
            self.failures.append("not everything was collected")
        self._run(session, self.repeats)
        self.guilty = self._growing()
        if self.guilty and not self.failures:
            self._run(session, self.repeats)
            self.guilty = self._growing()
        return True

    def __str__(self) -> str:
        return "flat: " + "; ".join(f"{name} {_joined(self._rows[name])}"
                                    for name in ("references", "blocks"))

    def _run(self, session: pytest.Session, repeats: int) -> None:
        for _ in range(repeats):
            if self.failures:
                return
            for number, item in enumerate(session.items):
                following = session.items[number + 1] if number + 1 < len(session.items) else None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                item._report_sections.clear()
            self._measure()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(f"{report.nodeid}: {str(report.longrepr)[-1_500:]}")

    def _measure(self) -> None:
        accounts.settle()
        re.purge()      # what names a port is a new pattern each time, up to 512 of them
        found = {"references": references(), "blocks": sys.getallocatedblocks(),
                 "descriptors": len(os.listdir("/proc/self/fd")),
                 **{f"native {name}": count for name, count in accounts.native().items()}}
        for name, value in found.items():
            self._rows.setdefault(name, array.array("q")).append(value)

    def _growing(self) -> list[str]:
        found = []
        for name, row in self._rows.items():
            steps = [after - before for before, after in zip(row, row[1:])][-LAST:]
            if len(steps) == LAST and min(steps) > 0:
                found.append(f"{name}: {_joined(row)}")
        return found


def _joined(row: array.array[int]) -> str:
    return ", ".join(map(str, row))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("module")
    options, rest = parser.parse_known_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's "&" ignores it
    repeater = Repeater(options.repeats)
    arguments: list[Any] = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}",
                            "-p", "no:terminal", "-p", "no:cacheprovider",
                            "-p", "no:xdist", "-o", "addopts=--import-mode=importlib",
                            options.module, *rest]
    code = pytest.main(arguments, plugins=[repeater])
    name = Path(options.module).name
    if repeater.failures or code not in (0, 5) or repeater.tests == 0:
        print(f"{name}: failed: {(repeater.failures or [f'pytest ended with {code}'])[0]}")
        return 2
    told = "; ".join(repeater.guilty) or str(repeater)
    print(f"{name}: {repeater.tests} tests: {told}", flush=True)
    return 1 if repeater.guilty else 0


if __name__ == "__main__":
    sys.exit(main())
