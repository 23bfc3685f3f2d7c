"""An ASGI service whose handlers await work that is not Python's: matrix products, photographs,
files, and a request to another service (here: itself).

    POST /matmul        two float32 or float64 matrices, one .npy after the other; answers .npy
    POST /frame         a JPEG; answers it blurred
    GET  /file/{path}   a file of the standard library
    GET  /mix           a 64 x 64 product, a 64 KiB file and a keep-alive request, concurrently
    GET  /ping, /stats  "ok"; what the process has used since the last call

A mistake of the caller is answered with 4xx and a sentence.
"""
from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lag import LagMeter
from ringloop import kernels
from work import Work

BODY_MAX = 64 * 1024 * 1024
MIX_MATRIX = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
MIX_BYTES = bytes(range(256)) * 256


class Refused(Exception):
    """Becomes an answer of that status with that sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence


def library_files() -> dict[str, Path]:
    """Every regular file of the standard library by its relative path. What is not in here cannot
    be asked for, however the path is written; links out of the tree are left out."""
    root = Path(sysconfig.get_path("stdlib")).resolve()
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("site-packages", "__pycache__")]
        for name in names:
            path = Path(folder, name)
            if path.is_file() and path.resolve().is_relative_to(root):
                found[path.relative_to(root).as_posix()] = path
    return found


def read_matrices(body: bytes) -> list[Any]:
    stream = io.BytesIO(body)
    try:
        pair = [np.lib.format.read_array(stream, allow_pickle=False) for _ in range(2)]
    except Exception as error:   # a header is parsed as Python: SyntaxError, RecursionError, any
        raise Refused(400, f"the body must be two .npy files in a row: {error}") from None
    if stream.read(1):
        raise Refused(400, "the body has more after its second .npy")
    check_answer(*pair)
    return pair


def check_answer(a: Any, b: Any) -> None:
    """A column by a row makes a large answer out of a small body; other shapes are the kernel's."""
    if a.ndim == b.ndim == 2 and a.shape[0] * b.shape[1] * a.itemsize > BODY_MAX:
        raise Refused(413, f"the product would have more than {BODY_MAX} bytes")


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def mix_answer(product: Any, content: bytes, pong: str) -> dict[str, Any]:
    return {"trace": float(np.trace(product)), "bytes": len(content), "ping": pong}


class Service:
    def __init__(self, work: Work, port: int) -> None:
        self.work = work
        self.ping_url = f"http://127.0.0.1:{port}/ping"
        self.files = library_files()
        self.lag = LagMeter()
        self.client: aiohttp.ClientSession
        self.mix_file: Path

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        with tempfile.TemporaryDirectory(prefix="ringloop-service-") as folder:
            self.mix_file = Path(folder, "64KiB")
            self.mix_file.write_bytes(MIX_BYTES)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
                self.client = client
                with self.lag:
                    yield
        self.work.close()

    async def matmul(self, request: Request) -> Response:
        a, b = read_matrices(await self._body(request))
        product = await self._compute(lambda: self.work.matmul(a, b))
        return Response(npy(product), media_type="application/octet-stream")

    async def frame(self, request: Request) -> Response:
        data = await self._body(request)
        pixels = await self._compute(lambda: self.work.jpeg_decode(data))
        blurred = await self._compute(lambda: self.work.frame_filter(pixels))
        encoded = await self._compute(lambda: self.work.jpeg_encode(blurred))
        return Response(encoded, media_type="image/jpeg")

    async def file(self, request: Request) -> Response:
        path = self.files.get(request.path_params["path"])
        if path is None:
            raise Refused(404, "the standard library has no file of that path")
        try:
            content = await self.work.read_file(path)
        except OSError as error:   # gone since the start, or not ours to read
            raise Refused(404, f"the file cannot be read: {error.strerror}") from None
        return Response(content, media_type="application/octet-stream")

    async def mix(self, request: Request) -> Response:
        return JSONResponse(mix_answer(*await asyncio.gather(
            self.work.matmul(MIX_MATRIX, MIX_MATRIX), self.work.read_file(self.mix_file),
            self._ping())))

    async def ping(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def stats(self, request: Request) -> Response:
        return JSONResponse({
            "cpu_seconds": time.process_time(), "compute_seconds": kernels.compute_seconds(),
            "lag_us": self.lag.take()})

    async def _ping(self) -> str:
        try:
            async with self.client.get(self.ping_url) as answer:
                return await answer.text()
        except aiohttp.ClientError as error:   # the service is ending: it listens no more
            raise Refused(503, f"the inner request failed: {error}") from None

    async def _body(self, request: Request) -> bytes:
        if int(request.headers.get("content-length", 0)) > BODY_MAX:
            raise Refused(413, f"a body has at most {BODY_MAX} bytes")
        parts, size = [], 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > BODY_MAX:
                raise Refused(413, f"a body has at most {BODY_MAX} bytes")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _compute(self, begin: Any) -> Any:
        try:
            return await begin()
        except (ValueError, TypeError) as error:
            raise Refused(400, str(error)) from None


async def refuse(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return PlainTextResponse(refused.sentence + "\n", status_code=refused.status)


async def leave(request: Request, gone: Exception) -> Response:
    """The client went away before its body was here: nobody reads this, and nothing is wrong."""
    return Response(status_code=400)


def make_app(work: Work, port: int) -> Starlette:
    """The application; `port` is where it will listen, for its requests to itself."""
    service = Service(work, port)
    return Starlette(
        routes=[
            Route("/matmul", service.matmul, methods=["POST"]),
            Route("/frame", service.frame, methods=["POST"]),
            Route("/file/{path:path}", service.file),
            Route("/mix", service.mix),
            Route("/ping", service.ping),
            Route("/stats", service.stats),
        ],
        exception_handlers={Refused: refuse, ClientDisconnect: leave}, lifespan=service.lifespan)
