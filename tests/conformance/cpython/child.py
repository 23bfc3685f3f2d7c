"""One module of the running interpreter's own test.test_asyncio, on ringloop's loop.

    child.py ORDERS REPORT        (../reporter.py)

Beyond what every suite knows, the orders hold `bind`, classes whose setUp makes a selector loop
that is to be ours, and `selector`, tests of those that keep it.

What "on ringloop's loop" means: asyncio's default policy is ours, and each mixin that is bound to a
selector loop somewhere in the module is bound to ours instead, once.
"""
from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import unittest
from asyncio import events, unix_events
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import reporter  # noqa: E402

import ringloop  # noqa: E402

_FACTORIES = ("create_event_loop", "new_loop")


def _set_default_policy() -> None:
    """Ours, and what set_event_loop_policy(None) at a test's end leads back to."""
    policy = ringloop.EventLoopPolicy       # before its base is replaced, too
    for module in (asyncio, unix_events):   # CPython 3.14 looks there
        for name in ("DefaultEventLoopPolicy", "_DefaultEventLoopPolicy"):
            if name in vars(module):
                setattr(module, name, policy)
    if sys.version_info >= (3, 14):         # where most modules name the default loop itself
        setattr(asyncio, "EventLoop", ringloop.EventLoop)
    # As the tests say it: the public name is deprecated on 3.14.
    reset = getattr(events, "_set_event_loop_policy", None) or asyncio.set_event_loop_policy
    reset(None)


def _factory_of(kind: type) -> str | None:
    """The method by which this class itself chooses a selector loop."""
    for name in _FACTORIES:
        method = kind.__dict__.get(name)
        if method is not None and "SelectorEventLoop(" in inspect.getsource(method):
            return name
    return None


def _derived(kind: type, name: str, method: Any) -> type:
    return type(kind.__name__, (kind,), {name: method, "__module__": kind.__module__,
                                         "__qualname__": kind.__qualname__})


def _with_our_loop_in_set_up(kind: type, selector: list[str]) -> type:
    def set_up(self: unittest.TestCase) -> None:
        if f"{kind.__name__}.{self._testMethodName}" in selector:
            kind.setUp(self)                # type: ignore[attr-defined]
            return
        with mock.patch.object(asyncio, "SelectorEventLoop", ringloop.new_event_loop):
            kind.setUp(self)                # type: ignore[attr-defined]
    return _derived(kind, "setUp", set_up)


def _classes(module: Any, bind: list[str], selector: list[str]
             ) -> Iterator[type[unittest.TestCase]]:
    """The module's test classes; of those that differ in the selector only, one with our loop."""
    chosen: dict[tuple[type, ...], str] = {}
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)
             and issubclass(kind, unittest.TestCase) and kind.__module__ == module.__name__]
    kinds.sort(key=lambda kind: not kind.__name__.startswith("EPoll"))   # of its likes, this one
    for kind in kinds:
        factory = _factory_of(kind)
        if factory is not None:
            if chosen.setdefault(kind.__bases__, kind.__name__) == kind.__name__:
                yield _derived(kind, factory, lambda self: ringloop.new_event_loop())
        elif kind.__name__ in bind:
            yield _with_our_loop_in_set_up(kind, selector)
        else:
            yield kind


def _find(orders: dict[str, Any]) -> tuple[str, Iterator[type[unittest.TestCase]]]:
    _set_default_policy()
    module = importlib.import_module(f"test.test_asyncio.{orders['module']}")
    return module.__name__, _classes(module, orders["bind"], orders["selector"])


if __name__ == "__main__":
    reporter.main(_find)
