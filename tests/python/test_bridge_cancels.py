"""Cancels of coroutines of an extension module, at every stage of their lives: nothing is left of
any, and each ends as docs/cancellation.md says. The module is tests/python/extension/ends.cpp."""
from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ringloop
from harness import accounts
from harness.extensions import load
from harness.loops import HOSTS, Run
from ringloop import _native

ends = load("bridge_ends")
ALL = os.environ.get("RINGLOOP_TEST_ALL") == "1"
CANCELS = 100_000 if ALL else 10_000 // len(HOSTS)
AT_ONCE = 50
LONG_US = 2_000_000_000


class Kinds:
    """Awaitables of every kind; what each ends with if no cancel comes first."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.object = object()
        self.handle = ringloop.SharedHandle()
        self.lane = ringloop.SharedHandle.attach(self.handle.share())
        self.all: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: ends.immediate(1), lambda: ends.turns(2), lambda: ends.sleeps(50),
            lambda: ends.sleeps(LONG_US), lambda: ends.offloads(10), ends.offloads_until_stopped,
            lambda: ends.goes_elsewhere(20), lambda: ends.goes_elsewhere(LONG_US),
            lambda: ends.finishes_in_any_case(20), lambda: ends.fails(20), self.awaits_python,
            self.awaits_native, lambda: ends.calls(self.called),
            lambda: ends.keeps(self.object, 5), self.iterates, self.completed,
            lambda: self.answers(ends.answer), lambda: self.answers(ends.answer_elsewhere))

    async def awaits_python(self) -> Any:
        async def python() -> object:
            await asyncio.sleep(self.chance.choice((0, 0.0001)))
            return self.object

        inner = python()
        try:
            return await ends.awaits(inner)
        finally:
            inner.close()       # where the cancel came before it had begun

    async def awaits_native(self) -> Any:
        inner = ends.sleeps(20)
        try:
            return await ends.awaits(inner)
        finally:
            inner.close()

    async def called(self, value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def iterates(self) -> int:
        numbers = ends.numbers(3, 10)
        try:
            return [each async for each in numbers][-1]
        finally:
            await numbers.aclose()

    async def completed(self) -> Any:
        token, result = self.handle.submit()
        asyncio.get_running_loop().call_soon(self.lane.complete, token, 7)
        return await result

    async def answers(self, native: Callable[[Any], Awaitable[ringloop.OwnedFd]]) -> bytes:
        """A descriptor that native code has: closed, or back."""
        near, far = socket.socketpair()
        with far:
            near.setblocking(False)
            far.setblocking(False)
            if self.chance.random() < 0.5:
                far.send(b"x")
            asked = native(near)
            assert near.fileno() == -1
            try:
                async with asyncio.timeout(self.chance.choice((0.0001, 0.01))):
                    with await asked as owned:
                        assert owned.fileno() >= 0
            except TimeoutError:
                pass
            finally:
                asked.close()       # a cancel may have come before its first step
            with contextlib.suppress(BlockingIOError):
                try:
                    while far.recv(1):
                        pass
                except ConnectionResetError:
                    pass                # closed before it had received
                return b"closed"
            raise AssertionError("somebody has it still")

    def close(self) -> None:
        self.lane.close()
        self.handle.close()


async def cancel_some(kinds: Kinds, count: int) -> int:
    """Cancels `count` at once, each at a moment of its own. How many cancels came first."""
    loop = asyncio.get_running_loop()
    tasks = []
    for _ in range(count):
        task = asyncio.ensure_future(kinds.chance.choice(kinds.all)())
        tasks.append(task)
        when = kinds.chance.random()
        if when < 0.2:
            task.cancel()
        elif when < 0.5:
            loop.call_soon(task.cancel)
        else:
            loop.call_later(kinds.chance.random() * 0.0005, task.cancel)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    strange = [each for each in found if isinstance(each, BaseException)
               and not isinstance(each, (asyncio.CancelledError, IndexError))]
    assert not strange, strange[:3]
    return sum(isinstance(each, asyncio.CancelledError) for each in found)


async def settled(kinds: Kinds, references: int) -> None:
    """References that ended without the GIL are dropped a moment later."""
    for _ in range(2_000):
        if sys.getrefcount(kinds.object) <= references and ends.alive() == 0:
            break
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.002)      # timers of cancels that came too late
    gc.collect()


@pytest.mark.time_limit(900 if ALL else 60)
def test_cancels_at_every_stage_leave_nothing(on_host: Run) -> None:
    async def main() -> None:
        kinds = Kinds(random.Random(7))
        await cancel_some(kinds, AT_ONCE)           # threads and guests are made
        references = sys.getrefcount(kinds.object)
        await settled(kinds, references)
        before = accounts.descriptors(), _native.ledger(), sys.getrefcount(kinds.object)
        cancelled = 0
        for _ in range(CANCELS // AT_ONCE):
            cancelled += await cancel_some(kinds, AT_ONCE)
        await settled(kinds, before[2])
        assert (accounts.descriptors(), _native.ledger(), sys.getrefcount(kinds.object)) == before
        assert ends.alive() == 0
        assert CANCELS * 0.3 < cancelled < CANCELS  # and the others were faster than theirs
        kinds.close()

    on_host(main())


def test_a_loop_closes_though_a_shielded_section_waits_for_python(on_host: Run) -> None:
    """close() used to wait for ever: for a future of the loop that it closes."""
    loop = on_host.new_loop()
    task = loop.create_task(ends.awaits_in_any_case(loop.create_future()))

    async def later() -> None:
        await loop.create_future()

    other = loop.create_task(ends.calls_in_any_case(later, 5_000))
    loop.run_until_complete(asyncio.sleep(0))
    assert ends.alive() == 2
    loop.close()
    assert ends.alive() == 0
    for each in (task, other):
        each._log_destroy_pending = False
