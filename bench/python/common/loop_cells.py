"""The cells of ./dev bench loops: what one loop does in one process. Runs as a program:

    loop_cells.py micro LOOP            prints {cell: seconds per item}
    loop_cells.py serve LOOP MODE       echo server (protocol, streams); prints its port, serves on

LOOP is asyncio, uvloop, rloop or ringloop. Core 0; the client is elsewhere.
"""
from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import placing  # noqa: E402

Loop = asyncio.AbstractEventLoop
REPEATS = 5     # of a tenth of a second each; the best counts, since noise only ever adds time


def new_loop(name: str) -> Loop:
    made: Loop = importlib.import_module(name).new_event_loop()
    return made


def call_soon_chain(loop: Loop, count: int = 200_000) -> float:
    left = count

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(step)
        else:
            loop.stop()

    loop.call_soon(step)
    begin = time.perf_counter()
    loop.run_forever()
    return (time.perf_counter() - begin) / count


def call_soon_burst(loop: Loop, burst: int = 10_000, bursts: int = 20) -> float:
    def nothing() -> None:
        pass

    async def main() -> None:
        call_soon = loop.call_soon
        for _ in range(bursts):
            for _ in range(burst):
                call_soon(nothing)
            await asyncio.sleep(0)

    return _timed(loop, main(), burst * bursts)


def timers(loop: Loop, count: int = 100_000) -> float:
    """`count` timers within 11 ms, every second one cancelled."""
    delays = random.Random(1)
    plan = [0.001 + 0.01 * delays.random() for _ in range(count)]
    fired = 0

    def fire() -> None:
        nonlocal fired
        fired += 1
        if fired == count // 2:
            loop.stop()

    def start() -> None:
        handles = [loop.call_later(delay, fire) for delay in plan]
        for handle in handles[::2]:
            handle.cancel()

    loop.call_soon(start)
    begin = time.perf_counter()
    loop.run_forever()
    return (time.perf_counter() - begin) / count


def sleep_0(loop: Loop, count: int = 150_000) -> float:
    async def main() -> None:
        sleep = asyncio.sleep
        for _ in range(count):
            await sleep(0)

    return _timed(loop, main(), count)


def create_task(loop: Loop, count: int = 60_000) -> float:
    async def nothing() -> None:
        pass

    async def main() -> None:
        create = loop.create_task
        for _ in range(count):
            await create(nothing())

    return _timed(loop, main(), count)


def futures(loop: Loop, count: int = 80_000) -> float:
    async def main() -> None:
        for _ in range(count):
            future = loop.create_future()
            loop.call_soon(future.set_result, None)
            await future

    return _timed(loop, main(), count)


def gather_100(loop: Loop, count: int = 300) -> float:
    async def one() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        for _ in range(count):
            await asyncio.gather(*[one() for _ in range(100)])

    return _timed(loop, main(), count * 100)


def _timed(loop: Loop, main: Awaitable[None], items: int) -> float:
    begin = time.perf_counter()
    loop.run_until_complete(main)
    return (time.perf_counter() - begin) / items


MICRO: dict[str, Callable[[Loop], float]] = {
    "call_soon chain": call_soon_chain, "call_soon burst of 10k": call_soon_burst,
    "100k timers, half cancelled": timers, "sleep(0)": sleep_0, "create_task + await": create_task,
    "future resolved": futures, "gather of 100": gather_100,
}


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(262144):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def serve(loop: Loop, mode: str) -> None:
    async def start() -> asyncio.Server:
        if mode == "protocol":
            return await loop.create_server(Echo, "127.0.0.1", 0, backlog=1024)
        return await asyncio.start_server(echo_stream, "127.0.0.1", 0, backlog=1024)

    asyncio.set_event_loop(loop)
    server = loop.run_until_complete(start())
    print(server.sockets[0].getsockname()[1], flush=True)
    loop.run_forever()


def main() -> None:
    role, name = sys.argv[1:3]
    placing.pin({0})
    loop = new_loop(name)
    if role == "serve":
        serve(loop, sys.argv[3])
        return
    found = {}
    for cell, function in MICRO.items():
        times = []
        for _ in range(REPEATS):
            loop = new_loop(name)
            asyncio.set_event_loop(loop)
            times.append(function(loop))
            loop.close()
        found[cell] = min(times)
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
