"""./dev bench bridge: native coroutines and functions of an extension module, beside Python's own.

Awaits (us, or p50 where a thread takes part): one whose outcome is known at the call, and a native
coroutine that never waits, beside a Python coroutine that returns at once; one that suspends once
beside a future resolved by call_soon; one that hops to a worker thread beside run_in_executor.
Calls: a sum over a buffer, by py::fast, pybind11 and ctypes. Many small items: batched and
coalesced beside one by one. Tasks: with ringloop's task factory, and with a hook that does nothing,
beside neither. Lateness: p99 of a heartbeat of 1 ms on the loop beside four native functions that
never end, on ringloop's workers and on those of a ThreadPoolExecutor. Hand-over: a connection
detached from its transport and attached again, on ringloop alone.
On asyncio, uvloop and ringloop. Rounds are shuffled; a ratio is ours over the other's within one
round, so below 1 ours is better (x where it says times: above 1).

    --rounds N   --json FILE
"""
from __future__ import annotations

import argparse
import array
import asyncio
import concurrent.futures
import ctypes
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from common import hosts, placing, report, stats
from common.hosts import HOSTS

# cell: (ours, theirs), names of measurements
RATIOS = {
    "known None / coroutine": ("known None", "coroutine None"),
    "known value / coroutine": ("known value", "coroutine value"),
    "native coroutine / coroutine": ("native None", "coroutine None"),
    "native coroutine / coroutine, value": ("native value", "coroutine value"),
    "suspends once / future by call_soon": ("suspends once", "future"),
    "worker hop / run_in_executor, p50": ("hop", "executor"),
    "task factory / none": ("tasks, our factory", "tasks"),
    "no-op hook / task factory": ("tasks, hooked", "tasks, our factory"),
    "call, py::fast / ctypes": ("sum fast", "sum ctypes"),
    "call, pybind11 / ctypes": ("sum pybind11", "sum ctypes"),
    "1,000 items batched / one by one": ("batched", "one by one"),
    "awaits coalesced / one by one": ("coalesced", "awaited singly"),
    "lateness beside workers / executor, p99": ("late beside workers", "late beside executor"),
}
BEATS, BUSY, WORK_STEPS = 1000, 4, 5_000_000


def extension() -> Any:
    sys.path.append(str(Path(os.environ["RINGLOOP_BUILD"]) / "extensions"))
    return __import__("bridge_bench")


async def mean(make: Callable[[], Awaitable[Any]], count: int) -> float:
    for _ in range(count // 10):
        await make()
    begin = time.perf_counter()
    for _ in range(count):
        await make()
    return (time.perf_counter() - begin) / count


async def p50(make: Callable[[], Awaitable[Any]], count: int) -> float:
    clock, times = time.perf_counter, []
    for _ in range(count):
        begin = clock()
        await make()
        times.append(clock() - begin)
    return stats.quantile(times, 0.5)


def called(function: Callable[[], Any], count: int) -> float:
    for _ in range(count // 10):
        function()
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count


def nothing() -> None:
    pass


async def awaits(found: dict[str, float], native: Any) -> None:
    loop = asyncio.get_running_loop()

    async def coroutine() -> None:
        pass

    async def coroutine_value() -> int:
        return 5

    def future() -> asyncio.Future[None]:
        made = loop.create_future()
        loop.call_soon(made.set_result, None)
        return made

    found["known None"] = await mean(native.nothing_known, 100_000)
    found["native None"] = await mean(native.nothing, 100_000)
    found["coroutine None"] = await mean(coroutine, 100_000)
    found["known value"] = await mean(lambda: native.value_known(5), 100_000)
    found["native value"] = await mean(lambda: native.value(5), 100_000)
    found["coroutine value"] = await mean(lambda: coroutine_value(), 100_000)
    found["suspends once"] = await mean(native.suspend_once, 30_000)
    found["future"] = await mean(future, 30_000)
    found["hop"] = await p50(native.hop, 5000)
    found["executor"] = await p50(lambda: loop.run_in_executor(None, nothing), 5000)


async def tasks(found: dict[str, float]) -> None:
    import ringloop
    loop = asyncio.get_running_loop()

    async def coroutine() -> None:
        pass

    async def make() -> None:
        await loop.create_task(coroutine())

    found["tasks"] = await mean(make, 20_000)
    loop.set_task_factory(ringloop.task_factory())
    found["tasks, our factory"] = await mean(make, 20_000)
    hook = ringloop.hooks.add(on_idle=nothing)
    found["tasks, hooked"] = await mean(make, 20_000)
    hook.remove()
    loop.set_task_factory(None)


def calls(found: dict[str, float], native: Any) -> None:
    values = array.array("d", range(8))
    plain = ctypes.CDLL(native.__file__).sum_plain
    plain.restype = ctypes.c_double
    plain.argtypes = (ctypes.c_void_p, ctypes.c_long)
    found["sum fast"] = called(lambda: native.sum_fast(values), 100_000)
    found["sum pybind11"] = called(lambda: native.sum_pybind11(values), 100_000)
    found["sum ctypes"] = called(
        lambda: plain((ctypes.c_double * len(values)).from_buffer(values), len(values)), 30_000)


async def many(found: dict[str, float]) -> None:
    """One crossing is a hop to a worker thread; the work on an item is next to nothing."""
    import ringloop

    def upper(items: list[str]) -> list[str]:
        return [item.upper() for item in items]

    items = ["item"] * 1000
    loop = asyncio.get_running_loop()

    async def singly() -> None:
        for item in items[:100]:
            await loop.run_in_executor(None, upper, [item])

    async def in_one() -> None:
        await loop.run_in_executor(None, ringloop.batched(upper), items)

    found["one by one"] = await mean(singly, 10) * 10       # of 1,000 items
    found["batched"] = await mean(in_one, 50)

    async def upper_many(batch: list[str]) -> list[str]:
        return await loop.run_in_executor(None, upper, batch)

    one = ringloop.coalesce(upper_many)
    found["awaited singly"] = await mean(
        lambda: asyncio.gather(*(upper_many([item]) for item in items[:100])), 30)
    found["coalesced"] = await mean(lambda: asyncio.gather(*map(one, items[:100])), 30)


async def lateness(work: Callable[[], Awaitable[None]]) -> float:
    """p99, of a loop that finds its thread's processor busy."""
    loop = asyncio.get_running_loop()
    late: list[float] = []
    over: asyncio.Future[None] = loop.create_future()

    async def again() -> None:
        while not over.done():
            await work()

    def beat(due: float) -> None:
        now = loop.time()
        late.append(now - due)
        if len(late) == BEATS:
            over.set_result(None)
        else:
            loop.call_at(now + 0.001, beat, now + 0.001)

    busy = [asyncio.ensure_future(again()) for _ in range(BUSY)]
    await asyncio.sleep(0.05)
    beat(loop.time())
    await over
    await asyncio.gather(*busy)
    return stats.quantile(late[1:], 0.99)


async def beats(found: dict[str, float], native: Any) -> None:
    loop = asyncio.get_running_loop()
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))     # as a service runs
    found["late beside workers"] = await lateness(lambda: native.work_on_workers(WORK_STEPS))
    with concurrent.futures.ThreadPoolExecutor(BUSY) as pool:
        found["late beside executor"] = await lateness(
            lambda: loop.run_in_executor(pool, native.work_released, WORK_STEPS))


async def hand_over(found: dict[str, float]) -> None:
    """us of one detach() and one attach(): with nothing in flight, and with the receive that a
    transport has armed after a turn."""
    import ringloop
    near, far = socket.socketpair()
    near.setblocking(False)
    given: Any = near
    for name, wait in (("hand-over, idle", False), ("hand-over, receiving", True)):
        times: list[float] = []
        transport, _ = await ringloop.attach(given, asyncio.Protocol)
        for _ in range(5_000):
            if wait:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            begin = time.perf_counter()
            given, _ = await ringloop.detach(transport)
            transport, _ = await ringloop.attach(given, asyncio.Protocol)
            times.append(time.perf_counter() - begin)
        given, _ = await ringloop.detach(transport)
        found[name] = stats.quantile(times, 0.5)
    given.close()
    far.close()


async def measure(host: str) -> dict[str, float]:
    found: dict[str, float] = {}
    native = extension()
    await awaits(found, native)
    await tasks(found)
    await many(found)
    calls(found, native)
    if host == "ringloop":
        await hand_over(found)
    await beats(found, native)
    return found


def run_host(host: str) -> None:
    factory = __import__(host).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(measure(host))), flush=True)


def microseconds(seconds: list[float]) -> str:
    return f"{stats.quantile(seconds, 0.5) * 1e6:.3f}" if seconds else ""


def main() -> None:
    parser = report.options("bridge", __doc__, rounds=6)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host)
    placing.pin({0, 1})
    found = hosts.rounds(__file__, options.rounds)
    names = list(found["ringloop"][0])
    print(report.table(["us", *HOSTS], [
        [name, *(microseconds([run[name] for run in found[host] if name in run])
                 for host in HOSTS)] for name in names]))
    print()
    ratios = {cell: {host: stats.paired([run[ours] for run in found[host]],
                                        [run[theirs] for run in found[host]]) for host in HOSTS}
              for cell, (ours, theirs) in RATIOS.items()}
    print(report.table(["ratio", *HOSTS], [[cell, *map(str, row.values())]
                                           for cell, row in ratios.items()]))
    report.save(options.json, "bridge", found)
    report.ratio(ratios["suspends once / future by call_soon"]["ringloop"].value,
                 "an await that suspends once over a future resolved by call_soon, ringloop")


if __name__ == "__main__":
    main()
