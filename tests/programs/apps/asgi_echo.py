"""An ASGI application: answers each request with the loop it runs on and the request's body, and
echoes each message of a WebSocket. Knows no server and no loop."""
from __future__ import annotations

import asyncio
from typing import Any


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await _answer(receive, send)
    else:
        await _echo(receive, send)


async def _lifespan(receive: Any, send: Any) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _answer(receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    loop = type(asyncio.get_running_loop()).__module__.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-loop", loop)]})
    await send({"type": "http.response.body", "body": body})


async def _echo(receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})
