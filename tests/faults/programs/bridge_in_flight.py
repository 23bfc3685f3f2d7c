"""What extension modules may have in flight when a program ends, for exit_in_flight.py. Each state
returns with its work begun; it works under any loop."""
import asyncio
import importlib
import select
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import ringloop

LONG_US = 2_000_000_000
kept: list[object] = []


def extension(name: str) -> Any:
    folder = str(Path(ringloop._native.__file__).absolute().parents[2] / "extensions")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


def task(work: Any) -> None:
    kept.append(asyncio.ensure_future(work))


async def never(*_: object) -> None:
    await asyncio.Event().wait()


async def iterating() -> None:
    """Half-way: between two steps, and inside one."""
    ends = extension("bridge_ends")

    async def steps(delay_us: int) -> None:
        async for _ in ends.numbers(1_000_000, delay_us):
            await asyncio.sleep(0)

    between = ends.numbers(10, 0)
    await anext(between)
    kept.append(between)
    task(steps(100))
    task(steps(LONG_US))


async def calling() -> None:
    """Functions of Python's that native code calls, plain ones too, and awaits."""
    ends = extension("bridge_ends")

    async def again() -> None:
        while True:
            await ends.calls(lambda value: value)
            await asyncio.sleep(0)

    task(ends.calls(never))
    task(extension("bridge_calls").call_group(never, 3))
    task(again())


async def awaiting() -> None:
    """Native, Python, native, Python."""
    ends = extension("bridge_ends")
    task(ends.awaits(ends.awaits(never())))
    task(ends.awaits(asyncio.get_running_loop().create_future()))


async def offloaded() -> None:
    ends = extension("bridge_ends")
    for _ in range(3):
        task(ends.offloads(50_000))
    task(ends.offloads_until_stopped())


async def elsewhere() -> None:
    """On the scheduler of another thread."""
    ends = extension("bridge_ends")
    for delay_us in (100_000, LONG_US):
        task(ends.goes_elsewhere(delay_us))


async def keeping() -> None:
    """References end on threads that have no GIL."""
    ends = extension("bridge_ends")

    async def again() -> None:
        while True:
            await ends.keeps([1], 10)

    for _ in range(3):
        task(ends.keeps({}, 20_000))
    task(again())


async def shielded() -> None:
    task(extension("bridge_ends").finishes_in_any_case(100_000))


async def produced() -> None:
    """A shared handle, and a native thread that completes its awaits."""
    handle = ringloop.SharedHandle()
    tokens = [handle.submit() for _ in range(1_000)]
    for _, result in tokens:
        task(result)
    extension("bridge_ends").produce(handle.capsule, [token for token, _ in tokens])
    kept.append(handle)


async def together() -> None:
    """Many small calls as one: waiting for its window, and under way."""
    ends = extension("bridge_ends")

    async def all_of(items: Sequence[int]) -> Sequence[int]:
        await ends.offloads(20_000)
        await never()
        return items

    one = ringloop.coalesce(all_of, window_us=0)
    waiting = ringloop.coalesce(all_of, window_us=LONG_US)
    for item in range(10):
        task(one(item))
        task(waiting(item))
    task(ringloop.batched(all_of)([1, 2, 3]))


async def hooked() -> None:
    """Hooks around the steps of tasks that await native work."""
    ends = extension("bridge_ends")
    loop = asyncio.get_running_loop()
    loop.set_task_factory(ringloop.task_factory())
    kept.append(ringloop.hooks.add(before_run=kept.count, after_run=kept.count, on_ready=kept.count,
                                   on_idle=kept.count, on_slow=lambda *_: None))

    async def again() -> None:
        while True:
            await ends.turns(2)
            await ends.sleeps(10)

    task(again())
    task(ends.sleeps(LONG_US))


async def graphed() -> None:
    """A graph with a node of each kind under way, and threads that hold the GIL or block."""
    ends = extension("bridge_ends")
    graph = ringloop.Graph()
    first = graph.node(lambda: 0, name="first")
    running = [graph.node(never, deps=[first]),
               graph.node(ends.sleeps, deps=[graph.input(LONG_US, name="us")], where="native")]
    running += [graph.node(work, deps=[first], where="pool")
                for work in (lambda _: sum(range(100_000)),
                             lambda _: threading.Event().wait(0.05)) for _ in range(4)]
    graph.node(never, deps=running)
    task(graph.run())
    while any(node.state != "RUNNING" for node in running[:2]):
        await asyncio.sleep(0)


STATES: dict[str, Callable[[], Awaitable[None]]] = {each.__name__: each for each in (
    iterating, calling, awaiting, offloaded, elsewhere, keeping, shielded, produced, together,
    hooked, graphed)}


async def interrupted() -> None:
    """Functions of Python's that native code calls, and that give up the GIL all the time. Not one
    of STATES: for threads that are there when the interpreter ends."""
    ends, calls, quick = map(extension, ("bridge_ends", "bridge_calls", "bridge_quick"))

    def function(*_: object) -> int:
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            select.select([], [], [], 0)
        return 1

    def described(_: object) -> str:
        return str(function())

    class Described:
        __str__ = described

    async def at_the_call() -> None:
        while True:
            quick.described(Described())
            await quick.described_later(Described())
            await asyncio.sleep(0)

    async def again() -> None:
        while True:
            await ends.calls(function)
            await calls.fail_because_of(function)
            await ends.calls_in_any_case(lambda: ends.awaits(asyncio.sleep(0, function())), 1)
            async for _ in calls.called(function):
                break

    task(again())
    task(at_the_call())


async def asking() -> None:
    """Native threads that ask for the GIL all the time. Not one of STATES, either."""
    for _ in range(6):
        extension("bridge_ends").take_the_gil_until_the_end()


async def overlong() -> None:
    """Longer than anybody waits at an exit. Not one of STATES: who closes its loop waits for it."""
    task(extension("bridge_ends").offloads(60_000_000))
    task(extension("bridge_ends").goes_elsewhere(LONG_US))
