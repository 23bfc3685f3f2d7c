"""One module of the running interpreter's own test.test_asyncio, on ringloop's loop.

    child.py ORDERS REPORT

ORDERS is a JSON file: module, skip (tests), bind (classes whose setUp makes a selector loop that is to
be ours), selector (tests of those that keep it), only (tests, or null for all), limit_s. REPORT gets one JSON line as a test
begins and one as it ends, so that the parent knows which test a crash or a hang belongs to. A test
over its limit is interrupted here first; the parent ends a process that stays silent.

What "on ringloop's loop" means: asyncio's default policy is ours, and each mixin that is bound to a
selector loop somewhere in the module is bound to ours instead, once.
"""
from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import signal
import sys
import traceback
import unittest
import warnings
from typing import Any, Callable, Iterator
from unittest import mock

import ringloop
import ringloop.loop

_FACTORIES = ("create_event_loop", "new_loop")
_WORST_LAST = ("passed", "skipped", "failed")
_loops_made = 0


class TestTooSlow(BaseException):
    """Not an Exception: neither a test nor a loop may swallow it."""

    __test__ = False


def count_loops() -> None:
    """From now on _loops_made says how many loops of ours were made."""
    original = ringloop.loop.EventLoop.__init__

    def initialize(self: Any, **options: Any) -> None:
        global _loops_made
        _loops_made += 1
        original(self, **options)

    ringloop.loop.EventLoop.__init__ = initialize    # type: ignore[method-assign]


def set_default_policy() -> None:
    """Ours, and what set_event_loop_policy(None) at a test's end leads back to."""
    names = [name for name in ("DefaultEventLoopPolicy", "_DefaultEventLoopPolicy")
             if name in vars(asyncio)]
    for name in names:
        setattr(asyncio, name, ringloop.EventLoopPolicy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(None)


def _factory_of(kind: type) -> str | None:
    """The method by which this class itself chooses a selector loop."""
    for name in _FACTORIES:
        method = kind.__dict__.get(name)
        if method is not None and "SelectorEventLoop(" in inspect.getsource(method):
            return name
    return None


def _bound(kind: type, name: str) -> type:
    return type(kind.__name__, (kind,), {
        name: lambda self: ringloop.new_event_loop(), "__module__": kind.__module__,
        "__qualname__": kind.__qualname__})


def _with_our_loop_in_set_up(kind: type, selector: list[str]) -> type:
    def set_up(self: unittest.TestCase) -> None:
        if f"{kind.__name__}.{self._testMethodName}" in selector:
            kind.setUp(self)                # type: ignore[attr-defined]
            return
        with mock.patch.object(asyncio, "SelectorEventLoop", ringloop.new_event_loop):
            kind.setUp(self)                # type: ignore[attr-defined]
    return type(kind.__name__, (kind,), {"setUp": set_up, "__module__": kind.__module__,
                                         "__qualname__": kind.__qualname__})


def classes(module: Any, bind: list[str], selector: list[str]) -> Iterator[type[unittest.TestCase]]:
    """The module's test classes; of those that differ in the selector only, one with our loop."""
    chosen: dict[tuple[type, ...], str] = {}
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)
             and issubclass(kind, unittest.TestCase) and kind.__module__ == module.__name__]
    kinds.sort(key=lambda kind: not kind.__name__.startswith("EPoll"))   # of its likes, this one
    for kind in kinds:
        factory = _factory_of(kind)
        if factory is not None:
            if chosen.setdefault(kind.__bases__, kind.__name__) == kind.__name__:
                yield _bound(kind, factory)
        elif kind.__name__ in bind:
            yield _with_our_loop_in_set_up(kind, selector)
        else:
            yield kind


class Reporter(unittest.TestResult):
    """Writes each test's begin and end as a JSON line; limits each test in time."""

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


def _suite(orders: dict[str, Any], module: Any, name: Callable[[unittest.TestCase], str]
           ) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    only = None if orders["only"] is None else set(orders["only"])
    for kind in classes(module, orders["bind"], orders["selector"]):
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(kind):
            if name(test) not in orders["skip"] and (only is None or name(test) in only):
                suite.addTest(test)
    return suite


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        orders = json.load(file)
    with open(sys.argv[2], "a", encoding="utf-8") as report:
        count_loops()
        set_default_policy()
        try:
            module = importlib.import_module(f"test.test_asyncio.{orders['module']}")
        except ModuleNotFoundError as error:
            report.write(json.dumps({"absent": str(error)}) + "\n")
            return
        except unittest.SkipTest as error:
            report.write(json.dumps({"absent": str(error)}) + "\n")
            return
        reporter = Reporter(report, module.__name__ + ".", orders["limit_s"])
        suite = _suite(orders, module, reporter.name)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            suite.run(reporter)
        report.write(json.dumps({"finished": True}) + "\n")
        report.flush()
    os._exit(0)     # a thread that a failed test left must not keep the process


if __name__ == "__main__":
    main()
