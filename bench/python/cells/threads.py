"""Where a loop meets other threads: the executor, calls from outside, and two loops at once."""
from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import threading
import time

from cells.loops import Loop, MakeLoop
from cells.model import CPU, P50, WALL, Figures


def run_in_executor(make: MakeLoop, scale: float) -> Figures:
    """One call after another. Wall time is the figure: two threads take turns."""
    count = round(4000 * scale)

    async def main(loop: Loop) -> None:
        for number in range(count):
            if await loop.run_in_executor(None, abs, -number) != number:
                raise AssertionError("another call's result")

    loop = make()
    loop.run_until_complete(main(loop))     # the threads start now
    cpu, wall = time.process_time(), time.perf_counter()
    loop.run_until_complete(main(loop))
    found = {CPU: (time.process_time() - cpu) / count, WALL: (time.perf_counter() - wall) / count}
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    return found


def threadsafe(make: MakeLoop, scale: float) -> Figures:
    """From a thread into an idle loop and back: call_soon_threadsafe until its callback ran."""
    count, loop, times = round(4000 * scale), make(), []

    def caller() -> None:
        ran = threading.Semaphore(0)
        for _ in range(count):
            begin = time.perf_counter()
            loop.call_soon_threadsafe(ran.release)
            ran.acquire()
            times.append(time.perf_counter() - begin)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=caller)
    loop.call_soon(thread.start)
    cpu = time.process_time()
    loop.run_forever()
    cpu = time.process_time() - cpu
    thread.join()
    loop.close()
    return {P50: statistics.median(times), CPU: cpu / count}


BLOCK, BLOCKS_AT_ONCE = 1 << 20, 4


def two_loops(make: MakeLoop, scale: float) -> Figures:
    """Native work on one loop, then on two loops in two threads: how many times as much is done.

    The work is reading cached blocks of a MiB, which the kernel copies without the GIL.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(BLOCK))
        file.flush()
        alone = _read_in_threads(make, file.name, 1, scale)
        return {"loops": _read_in_threads(make, file.name, 2, scale) / alone}


def _read_in_threads(make: MakeLoop, path: str, threads: int, scale: float) -> float:
    """Blocks per second of all threads."""
    start, rates = threading.Barrier(threads), [0.0] * threads

    def work(number: int) -> None:
        os.sched_setaffinity(0, {number % (os.cpu_count() or 1)})
        loop = make()
        rates[number] = loop.run_until_complete(_read(path, start, round(max(500 * scale, 2))))
        loop.close()

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if not all(rates):
        raise AssertionError("a thread failed")
    return sum(rates)


async def _read(path: str, start: threading.Barrier, rounds: int) -> float:
    buffers = [bytearray(BLOCK) for _ in range(BLOCKS_AT_ONCE)]

    async def one(buffer: bytearray) -> None:
        import ringloop

        async with ringloop.open(path, "rb") as file:
            for _ in range(rounds):
                await file.seek(0)
                await file.readinto(buffer)

    start.wait()
    begin = time.perf_counter()
    await asyncio.gather(*map(one, buffers))
    taken = time.perf_counter() - begin
    with open(path, "rb") as right:
        block = right.read()
    if any(block != buffer for buffer in buffers):
        raise AssertionError("wrong bytes")
    return rounds * BLOCKS_AT_ONCE / taken
