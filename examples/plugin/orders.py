"""A Python program whose native plug-in awaits back into Python, three levels deep.

    PYTHONPATH=BUILD python orders.py            an order goes through, at the second attempt
    PYTHONPATH=BUILD python orders.py LEVEL      "order", "payment", "bank" or "line" is cancelled
    PYTHONPATH=BUILD python orders.py LEVEL LOOP "asyncio", "uvloop"; as a rule ringloop

Each level is a coroutine that the plug-in runs for the level above it: order -> payment -> bank ->
line, with a patience.insist() between any two. A cancel of one ends all below it, the lowest first,
each with its own clean-up; the level above is told by a CancelledError that is not its own.
"""
from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import patience

tasks: dict[str, asyncio.Task[Any]] = {}
reached = asyncio.Event()
attempts = 0


@contextmanager
def level(name: str) -> Iterator[None]:
    task = asyncio.current_task()
    assert task is not None
    tasks[name] = task
    try:
        yield
    except asyncio.CancelledError:
        # task.cancelling(): somebody cancelled this one. Otherwise what it waited for has ended so.
        print(f"{name}: {'cancelled' if task.cancelling() else 'what it waited for was cancelled'}")
        raise
    finally:
        print(f"{name}: cleaned up")


async def line(order: int) -> str:
    global attempts
    with level("line"):
        attempts += 1
        if attempts == 1:
            raise ConnectionError("busy")       # the plug-in tries again
        reached.set()
        if len(sys.argv) > 1:
            await asyncio.sleep(3600)           # nobody answers
        return f"order {order} is paid"


async def bank(order: int) -> str:
    with level("bank"):
        return await patience.insist(line, order, pause_s=0.01)


async def payment(order: int) -> str:
    with level("payment"):
        return await patience.insist(bank, order, times=1)


async def order(number: int) -> str:
    with level("order"):
        return await patience.insist(payment, number, times=1)


async def main() -> None:
    placed = asyncio.create_task(order(7))
    await reached.wait()
    if len(sys.argv) > 1:
        tasks[sys.argv[1]].cancel()
    try:
        print(await placed)
    except asyncio.CancelledError:
        print("the order was not placed")
    assert asyncio.all_tasks() == {asyncio.current_task()}      # nothing is left


loop = importlib.import_module(sys.argv[2] if len(sys.argv) > 2 else "ringloop")
with asyncio.Runner(loop_factory=loop.new_event_loop) as runner:
    runner.run(main())
