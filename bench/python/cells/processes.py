"""Child processes: what one costs, and for how long the loop stands still meanwhile."""
from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import Callable, Coroutine

from cells.loops import Loop, MakeLoop
from cells.model import CPU, WALL, Figures

CHILDREN = 60
Child = Callable[[], Coroutine[None, None, None]]
TEXT = b"some bytes for a child\n"


async def true() -> None:
    process = await asyncio.create_subprocess_exec("/bin/true")
    if await process.wait() != 0:
        raise AssertionError("/bin/true failed")


async def echo() -> None:
    process = await asyncio.create_subprocess_exec("/bin/echo", "words",
                                                   stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    if (out, process.returncode) != (b"words\n", 0):
        raise AssertionError(f"/bin/echo said {out!r}")


async def cat() -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("/bin/cat", stdin=pipe, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate(TEXT)
    if (out, errors, process.returncode) != (TEXT, b"", 0):
        raise AssertionError(f"/bin/cat said {out!r} {errors!r}")


def _one_by_one(make: MakeLoop, child: Child, scale: float) -> Figures:
    """Wall time, and CPU of this process, not of the children."""
    count = round(max(CHILDREN * scale, 2))

    async def main() -> tuple[float, float]:
        await child()
        cpu, wall = _own_cpu(), time.perf_counter()
        for _ in range(count):
            await child()
        return _own_cpu() - cpu, time.perf_counter() - wall

    loop = make()
    cpu, wall = loop.run_until_complete(main())
    loop.close()
    return {WALL: wall / count, CPU: cpu / count}


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def spawn_true(make: MakeLoop, scale: float) -> Figures:
    return _one_by_one(make, true, scale)


def spawn_echo(make: MakeLoop, scale: float) -> Figures:
    return _one_by_one(make, echo, scale)


def spawn_cat(make: MakeLoop, scale: float) -> Figures:
    return _one_by_one(make, cat, scale)


def spawn_when_large(make: MakeLoop, scale: float) -> Figures:
    """With a GiB resident: the longest time between two callbacks while a child starts and ends,
    the median of some children."""
    resident = bytearray(round((1 << 30) * scale))
    resident[::4096] = b"1" * len(resident[::4096])
    loop = make()
    stands = [loop.run_until_complete(_standstill(loop)) for _ in range(7 if scale == 1 else 1)]
    loop.close()
    return {"blocked_s": statistics.median(stands)}


async def _standstill(loop: Loop) -> float:
    longest, last, over = 0.0, time.perf_counter(), False

    def tick() -> None:
        nonlocal longest, last
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        if not over:
            loop.call_soon(tick)

    loop.call_soon(tick)
    await true()
    over = True
    await asyncio.sleep(0)
    return longest
