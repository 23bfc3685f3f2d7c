"""Reading cached files: by our awaits, by an executor, and by blocking in place.

The executor's loop is uvloop where it is there, else asyncio: the job gets it as `make`.
"""
from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from cells.loops import MakeLoop
from cells.model import CPU, WALL, Figures

BLOCK, BLOCKS = 65536, 1024
FILES, FILE_BYTES, FILES_AT_ONCE = 2000, 4096, 8
Work = Callable[[], Awaitable[None]]


def _second_go(make: MakeLoop, work: Work, items: int) -> Figures:
    async def main() -> tuple[float, float]:
        await work()
        cpu, wall = time.process_time(), time.perf_counter()
        await work()
        return time.process_time() - cpu, time.perf_counter() - wall

    loop = make()
    cpu, wall = loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    return {CPU: cpu / items, WALL: wall / items}


def _right(got: bytes, right: bytes) -> None:
    if got != right:
        raise AssertionError("wrong bytes")


def _big(make: MakeLoop, scale: float, reader: Callable[[str, bytes, int], Work]) -> Figures:
    """64 KiB preads of a cached file, one after another; the last block of each go is compared."""
    blocks = round(max(BLOCKS * scale, 2))
    with tempfile.NamedTemporaryFile() as file:
        contents = os.urandom(BLOCK) * (blocks - 1) + os.urandom(BLOCK)
        file.write(contents)
        file.flush()
        return _second_go(make, reader(file.name, contents[-BLOCK:], blocks), blocks)


def pread_awaited(make: MakeLoop, scale: float) -> Figures:
    def reader(path: str, last: bytes, blocks: int) -> Work:
        async def work() -> None:
            import ringloop

            async with ringloop.open(path, "rb") as file:
                for number in range(blocks):
                    got = await file.pread(BLOCK, number * BLOCK)
            _right(got, last)
        return work

    return _big(make, scale, reader)


def pread_executor(make: MakeLoop, scale: float) -> Figures:
    def reader(path: str, last: bytes, blocks: int) -> Work:
        async def work() -> None:
            loop = asyncio.get_running_loop()
            with open(path, "rb", buffering=0) as file:
                for number in range(blocks):
                    got = await loop.run_in_executor(None, os.pread, file.fileno(), BLOCK,
                                                     number * BLOCK)
            _right(got, last)
        return work

    return _big(make, scale, reader)


def pread_blocking(make: MakeLoop, scale: float) -> Figures:
    def reader(path: str, last: bytes, blocks: int) -> Work:
        async def work() -> None:
            with open(path, "rb", buffering=0) as file:
                for number in range(blocks):
                    got = os.pread(file.fileno(), BLOCK, number * BLOCK)
            _right(got, last)
        return work

    return _big(make, scale, reader)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _small(make: MakeLoop, scale: float, at_once: int,
           read: Callable[[str], Awaitable[bytes]]) -> Figures:
    """Files of 4 KiB, `at_once` in flight."""
    count = round(max(FILES * scale, FILES_AT_ONCE))
    with tempfile.TemporaryDirectory() as folder:
        right = {str(Path(folder, str(number))): os.urandom(FILE_BYTES) for number in range(count)}
        for path, contents in right.items():
            Path(path).write_bytes(contents)

        async def work() -> None:
            paths = iter(right)

            async def one() -> None:
                for path in paths:
                    _right(await read(path), right[path])

            await asyncio.gather(*(one() for _ in range(at_once)))

        return _second_go(make, work, count)


def small_awaited(make: MakeLoop, scale: float) -> Figures:
    from ringloop import fs

    return _small(make, scale, FILES_AT_ONCE, fs.read_bytes)


def small_executor(make: MakeLoop, scale: float) -> Figures:
    async def read(path: str) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(None, _read, path)

    return _small(make, scale, FILES_AT_ONCE, read)


def small_blocking(make: MakeLoop, scale: float) -> Figures:
    async def read(path: str) -> bytes:
        return _read(path)

    return _small(make, scale, 1, read)
