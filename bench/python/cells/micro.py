"""Callbacks, timers, tasks and futures: what one loop does with nothing else on its core.

CPU and wall seconds per item, the best of some goes in one process, each on a new loop: noise only
ever adds time. Every job counts what ran, so that a loop that forgets some fails.
"""
from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from cells.loops import Loop, MakeLoop
from cells.model import CPU, WALL, Figures

GOES = 3
Stop = Callable[[], None]


def _best(make: MakeLoop, go: Callable[[Loop], int], goes: int = GOES) -> Figures:
    """`go` runs the loop and returns how many items that was."""
    found: list[tuple[float, float]] = []
    for _ in range(goes):
        loop = make()
        cpu, wall = time.process_time(), time.perf_counter()
        items = go(loop)
        found.append(((time.process_time() - cpu) / items, (time.perf_counter() - wall) / items))
        loop.close()
    return {CPU: min(cpu for cpu, _ in found), WALL: min(wall for _, wall in found)}


def _tasks(make: MakeLoop, main: Callable[[Loop], Coroutine[Any, Any, int]]) -> Figures:
    return _best(make, lambda loop: loop.run_until_complete(main(loop)))


def _expect(got: object, right: object) -> None:
    if got != right:
        raise AssertionError(f"{got!r} instead of {right!r}")


def call_soon_chain(make: MakeLoop, scale: float) -> Figures:
    def go(loop: Loop) -> int:
        ran, count = 0, round(200_000 * scale)

        def step() -> None:
            nonlocal ran
            ran += 1
            if ran == count:
                loop.stop()
            else:
                loop.call_soon(step)

        loop.call_soon(step)
        loop.run_forever()
        _expect(ran, count)
        return count

    return _best(make, go)


def call_soon_burst(make: MakeLoop, scale: float) -> Figures:
    """Bursts of 10,000, then the loop runs dry."""
    burst, bursts = round(10_000 * max(scale, 0.01)), round(max(20 * scale, 1))

    def nothing() -> None:
        pass

    async def main(loop: Loop) -> int:
        for number in range(bursts):
            order: list[int] = []
            loop.call_soon(order.append, 1)
            for _ in range(burst - 2):
                loop.call_soon(nothing)
            loop.call_soon(order.append, 2)
            await asyncio.sleep(0)
            _expect((number, order), (number, [1, 2]))
        return burst * bursts

    return _tasks(make, main)


def timers(make: MakeLoop, scale: float) -> Figures:
    """100,000 timers within 11 ms, every second one cancelled."""
    count, chance = round(100_000 * scale), random.Random(1)
    left = count // 2
    plan = [0.001 + 0.01 * chance.random() for _ in range(count)]

    def go(loop: Loop) -> int:
        fired = 0

        def fire() -> None:
            nonlocal fired
            fired += 1
            if fired == left:
                loop.call_later(0.005, loop.stop)

        def start() -> None:
            for handle in [loop.call_later(delay, fire) for delay in plan][::2]:
                handle.cancel()

        loop.call_soon(start)
        loop.run_forever()
        _expect(fired, left)
        return count

    return _best(make, go)


def sleep_0(make: MakeLoop, scale: float) -> Figures:
    async def main(loop: Loop) -> int:
        count = round(150_000 * scale)
        for _ in range(count):
            await asyncio.sleep(0)
        return count

    return _tasks(make, main)


def create_task(make: MakeLoop, scale: float) -> Figures:
    async def item() -> int:
        return 1

    async def main(loop: Loop) -> int:
        count, ran = round(60_000 * scale), 0
        for _ in range(count):
            ran += await loop.create_task(item())
        _expect(ran, count)
        return count

    return _tasks(make, main)


def futures(make: MakeLoop, scale: float) -> Figures:
    async def main(loop: Loop) -> int:
        count = round(80_000 * scale)
        for _ in range(count):
            future = loop.create_future()
            loop.call_soon(future.set_result, None)
            await future
        return count

    return _tasks(make, main)


def gather_100(make: MakeLoop, scale: float) -> Figures:
    async def item(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def main(loop: Loop) -> int:
        gathers, right = round(max(300 * scale, 1)), list(range(100))
        for _ in range(gathers):
            _expect(await asyncio.gather(*map(item, right)), right)
        return 100 * gathers

    return _tasks(make, main)


def timers_among(make: MakeLoop, scale: float) -> Figures:
    """One timer more and its cancelling: with a million others alive, over a thousand."""
    def cost(alive: int) -> float:
        def go(loop: Loop) -> int:
            count = round(100_000 * scale)
            for _ in range(count):
                loop.call_later(500, _nothing).cancel()
            return count

        def make_crowded() -> Loop:
            loop = make()
            kept.append([loop.call_later(1000 + number * 0.01, _nothing)
                         for number in range(alive)])
            return loop

        kept: list[list[asyncio.TimerHandle]] = []
        return _best(make_crowded, go)[CPU]

    few = cost(1000)
    return {CPU: few, "growth": cost(round(1_000_000 * scale)) / few}


def _nothing() -> None:
    pass
