"""aiohttp's server and client, both on our loop."""
from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, AsyncIterator

import aiohttp
from aiohttp import web

COUNT = 1000


@contextlib.asynccontextmanager
async def served(*routes: web.RouteDef) -> AsyncIterator[str]:
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_thousand_requests_over_a_pool_of_connections(backend: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async with served(web.post("/", answer)) as url, \
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=20)) as session:
        async def ask(number: int) -> None:
            async with session.post(url, data=b"%d" % number) as found:
                assert await found.read() == b"%d" % number

        await asyncio.gather(*map(ask, range(COUNT)))


async def test_a_thousand_messages_of_a_websocket(backend: str) -> None:
    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    async with served(web.get("/", echo)) as url, aiohttp.ClientSession() as session, \
            session.ws_connect(url) as client:
        for number in range(COUNT):
            await client.send_str(f"{number}")
            assert await client.receive_str() == f"{number}"


async def test_a_file_is_sent_whole_and_in_part(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = bytes(range(256)) * 16384
    path.write_bytes(content)

    async def answer(_: Any) -> web.FileResponse:
        return web.FileResponse(path)

    async with served(web.get("/", answer)) as url, aiohttp.ClientSession() as session:
        async with session.get(url) as found:
            assert await found.read() == content
        async with session.get(url, headers={"Range": "bytes=1000-1000999"}) as found:
            assert await found.read() == content[1000:1001000]
