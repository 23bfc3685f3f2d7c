"""The one thing in which the service's variants differ: how work leaves the loop.

Both flavours have the same kernels and the same methods; each returns something to await.
`Executor` is what one writes without ringloop: plain functions on a thread pool, as large as
ringloop's own. `Native` awaits ringloop's kernels and files, under any loop.
"""
from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import ringloop
from ringloop import kernels
from ringloop.kernels import sync


class Work(Protocol):
    def matmul(self, a: Any, b: Any) -> Awaitable[Any]: ...
    def jpeg_decode(self, data: bytes) -> Awaitable[Any]: ...
    def frame_filter(self, frame: Any) -> Awaitable[Any]: ...
    def jpeg_encode(self, frame: Any) -> Awaitable[bytes]: ...
    def read_file(self, path: Path) -> Awaitable[bytes]: ...
    def close(self) -> None: ...


class Executor:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(kernels.concurrency(), thread_name_prefix="executor")

    def _run(self, function: Any, *arguments: Any) -> Awaitable[Any]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def matmul(self, a: Any, b: Any) -> Awaitable[Any]:
        return self._run(sync.matmul, a, b)

    def jpeg_decode(self, data: bytes) -> Awaitable[Any]:
        return self._run(sync.jpeg_decode, data)

    def frame_filter(self, frame: Any) -> Awaitable[Any]:
        return self._run(sync.frame_filter, frame, "gaussian5")

    def jpeg_encode(self, frame: Any) -> Awaitable[bytes]:
        return self._run(sync.jpeg_encode, frame)

    def read_file(self, path: Path) -> Awaitable[bytes]:
        return self._run(path.read_bytes)

    def close(self) -> None:
        self._pool.shutdown()


class Native:
    def matmul(self, a: Any, b: Any) -> Awaitable[Any]:
        return kernels.matmul(a, b)

    def jpeg_decode(self, data: bytes) -> Awaitable[Any]:
        return kernels.jpeg_decode(data)

    def frame_filter(self, frame: Any) -> Awaitable[Any]:
        return kernels.frame_filter(frame, "gaussian5")

    def jpeg_encode(self, frame: Any) -> Awaitable[bytes]:
        return kernels.jpeg_encode(frame)

    def read_file(self, path: Path) -> Awaitable[bytes]:
        content: Awaitable[bytes] = ringloop.fs.read_bytes(path)
        return content

    def close(self) -> None:
        pass


FLAVOURS: dict[str, type[Executor] | type[Native]] = {"executor": Executor, "native": Native}
