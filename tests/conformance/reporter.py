"""The child's side of a suite: which tests run, and a JSON line as each begins and ends.

The parent (harness.py) learns from the lines to which test a crash or a hang belongs. A test over
its limit is interrupted here first; the parent ends a process that stays silent.
"""
from __future__ import annotations

import json
import os
import signal
import sys
import traceback
import unittest
import warnings
from typing import Any, Callable, Iterable

import ringloop.loop

_WORST_LAST = ("passed", "skipped", "failed")
_loops_made = 0


class TestTooSlow(BaseException):
    """Not an Exception: neither a test nor a loop may swallow it."""

    __test__ = False


def _count_loops() -> None:
    """From now on _loops_made says how many loops of ours were made."""
    original = ringloop.loop.EventLoop.__init__

    def initialize(self: Any, **options: Any) -> None:
        global _loops_made
        _loops_made += 1
        original(self, **options)

    ringloop.loop.EventLoop.__init__ = initialize    # type: ignore[method-assign]


class Reporter(unittest.TestResult):
    """Writes the lines; limits each test in time."""

    def __init__(self, report: Any, prefix: str, limit_s: float) -> None:
        super().__init__()
        self._report = report
        self._prefix = prefix
        self._limit_s = limit_s
        self._outcome: str | None = None
        self._text = ""
        self._loops_before = 0

    def _write(self, **line: Any) -> None:
        self._report.write(json.dumps(line) + "\n")
        self._report.flush()

    def name(self, test: unittest.TestCase) -> str:
        return test.id().removeprefix(self._prefix)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._outcome, self._text, self._loops_before = None, "", _loops_made
        self._write(begin=self.name(test))
        signal.signal(signal.SIGALRM, self._expired)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)

    def _expired(self, *_: object) -> None:
        raise TestTooSlow(f"no end after {self._limit_s:.0f} s")

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTest(test)
        self._write(end=self.name(test), outcome=self._outcome or "passed", text=self._text[-3000:],
                    on_loop=_loops_made > self._loops_before)

    def _note(self, outcome: str, text: str = "") -> None:
        if self._outcome is None or _WORST_LAST.index(outcome) > _WORST_LAST.index(self._outcome):
            self._outcome, self._text = outcome, text

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note("passed")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note("passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note("failed", "an unexpected success")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note("skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note("failed", "".join(traceback.format_exception(*err)))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        text = "".join(traceback.format_exception(*err))
        if isinstance(test, unittest.TestCase):
            self._note("failed", text)
        else:       # a fixture of a class or of the module: there is no test to count it for
            self._write(fixture=str(test), text=text[-3000:])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._note("failed", "".join(traceback.format_exception(*err)))


Find = Callable[[dict[str, Any]], tuple[str, Iterable[type[unittest.TestCase]]]]


def main(find: Find) -> None:
    """argv: ORDERS REPORT. `find` imports what the orders name: its name, and its test classes.

    ORDERS is a JSON file: module, skip (tests), only (tests, or null for all), limit_s, and what
    else `find` knows.
    """
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    with open(sys.argv[2], "a", encoding="utf-8") as report:
        _count_loops()
        try:
            name, kinds = find(orders)
        except (ModuleNotFoundError, unittest.SkipTest) as error:
            report.write(json.dumps({"absent": str(error)}) + "\n")
            return
        reporter = Reporter(report, name + ".", orders["limit_s"])
        only = None if orders["only"] is None else set(orders["only"])
        suite, found = unittest.TestSuite(), []
        for kind in kinds:
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(kind):
                own = reporter.name(test)
                found.append(own)
                if own not in orders["skip"] and (only is None or own in only):
                    suite.addTest(test)
        report.write(json.dumps({"found": found}) + "\n")
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            suite.run(reporter)
        report.write(json.dumps({"finished": True}) + "\n")
        report.flush()
    os._exit(0)     # a thread that a failed test left must not keep the process
