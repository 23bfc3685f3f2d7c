"""Many outbound connections at once, to a listener that accepts as fast as the kernel does."""
from __future__ import annotations

import asyncio
import resource
import time

from cells import programs
from cells.loops import Loop, MakeLoop
from cells.model import CPU, WALL, Figures

CONNECTIONS = 5000


def outbound(make: MakeLoop, scale: float) -> Figures:
    """create_connection() of all at once, until the last is made. Per connection."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = round(CONNECTIONS * scale)
    if hard < count + 100:
        raise AssertionError(f"only {hard} descriptors are allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with programs.listener() as listening:
        assert listening.stdin is not None and listening.stdout is not None
        port = int(listening.stdout.readline())
        loop = make()
        cpu, wall = time.process_time(), time.perf_counter()
        made = loop.run_until_complete(_connect(loop, port, count))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if len({each.get_extra_info("sockname") for each in made}) != count:
            raise AssertionError("not all connections were made")
        for each in made:
            each.abort()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        listening.stdin.close()
    return {WALL: wall / count, CPU: cpu / count}


async def _connect(loop: Loop, port: int, count: int) -> list[asyncio.Transport]:
    made = await asyncio.gather(*(
        loop.create_connection(asyncio.Protocol, "127.0.0.1", port) for _ in range(count)))
    return [transport for transport, _ in made]
