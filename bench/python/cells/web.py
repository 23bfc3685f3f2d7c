"""Services on other people's servers: uvicorn with httptools, aiohttp, websockets under uvicorn."""
from __future__ import annotations

import asyncio
import socket
from typing import Any

from cells import services

BODY = b"Hello, world!"
PATH = "/socket"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"text/plain"),
                            (b"content-length", str(len(BODY)).encode())]})
    await send({"type": "http.response.body", "body": BODY})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Binary messages of one WebSocket, until it closes."""
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": event["bytes"]})


async def uvicorn_app(listening: socket.socket) -> str:
    return await _uvicorn(hello, listening, http="httptools", ws="none")


async def websocket_app(listening: socket.socket) -> str:
    return await _uvicorn(echo, listening, http="httptools", ws="websockets-sansio")


async def _uvicorn(app: Any, listening: socket.socket, **options: Any) -> str:
    import uvicorn

    port = listening.getsockname()[1]   # rloop takes the socket's descriptor away
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False,
                                           lifespan="off", **options))
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[listening]))
    services.kept += [server, task]
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("uvicorn stopped")
        await asyncio.sleep(0.01)
    return str(port)


async def aiohttp_app(listening: socket.socket) -> str:
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=BODY)

    port = listening.getsockname()[1]
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening, backlog=services.BACKLOG).start()
    services.kept.append(runner)
    return str(port)
