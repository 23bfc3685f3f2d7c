"""leakcheck(): what a block of code leaves behind, told by kind and number.

It reads the process's counts at both ends and holds nothing between but weak references. Thread:
any; what other threads make and keep meanwhile counts as well.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import weakref
from collections import Counter
from types import TracebackType
from typing import Any

from . import _native

_SHOWN = 5  # awaitables that are named in a message


class LeakError(RuntimeError):
    """What leakcheck() raises. leaks: how many more there are, by kind."""

    def __init__(self, message: str, leaks: dict[str, int]) -> None:
        super().__init__(message)
        self.leaks = leaks


class leakcheck:
    """A block of code that must leave nothing behind, as `with` or `async with`:

        with ringloop.leakcheck():
            asyncio.run(main())

        async with ringloop.leakcheck():        # inside of a loop that goes on
            await handle(request)

    Compared before and after, once the garbage is collected: everything of `_native.ledger()`
    (awaitables, operations in flight, loops, handles, transports, files, buffers), open descriptors
    by number and name, and the reference counts of `objects`. More than before is LeakError, with
    kind, number and, of awaitables, what they are doing; fewer is none. What is still ending has
    settle_s seconds for it; `with` inside of a running loop cannot wait. A block that raises is not
    checked: its exception goes on. `async with` starts what awaitables need on this loop first, so
    that it does not count.
    """

    def __init__(self, *objects: object, settle_s: float = 1.0) -> None:
        if not settle_s >= 0:
            raise ValueError(f"settle_s is a number of seconds, not {settle_s!r}")
        self._objects = objects
        self._settle_s = settle_s

    def __enter__(self) -> None:
        gc.collect()
        self._awaitables = weakref.WeakSet(_awaitables())
        self._before = self._account()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        in_loop = asyncio.events._get_running_loop() is not None
        deadline = time.monotonic() + (0 if in_loop else self._settle_s)
        while leaks := self._leaks():
            if time.monotonic() >= deadline:
                raise self._error(leaks)
            threading.Event().wait(0.005)  # for threads that end

    async def __aenter__(self) -> None:
        await _native.stat("/")
        await asyncio.sleep(0)  # it goes only after the step that it woke
        self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        deadline = time.monotonic() + self._settle_s
        while leaks := self._leaks():
            if time.monotonic() >= deadline:
                raise self._error(leaks)
            await asyncio.sleep(0.005)

    def _account(self) -> Counter[str]:
        found = Counter(_native.ledger())
        for number in os.listdir("/proc/self/fd"):
            try:
                found[f"descriptor {number} {os.readlink(f'/proc/self/fd/{number}')}"] += 1
            except FileNotFoundError:  # of this very listing
                continue
        for at, each in enumerate(self._objects):
            found[f"reference to {type(each).__name__} (argument {at})"] = sys.getrefcount(each)
        return found

    def _leaks(self) -> dict[str, int]:
        gc.collect()
        return dict(self._account() - self._before)

    def _error(self, leaks: dict[str, int]) -> LeakError:
        parts = [f"{count} {kind}" for kind, count in leaks.items()]
        new = [repr(each) for each in _awaitables() if each not in self._awaitables]
        named = f" ({', '.join(new[:_SHOWN])}{', …' * (len(new) > _SHOWN)})" if new else ""
        return LeakError(f"left behind: {', '.join(parts)}{named}", leaks)


def _awaitables() -> list[Any]:
    return [each for each in gc.get_objects() if type(each) is _native.Awaitable]
