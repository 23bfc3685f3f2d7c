"""Connected TCP pairs for transport tests: one end on the loop, the other a blocking socket."""
from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any, Callable, Iterator


class Recorder(asyncio.Protocol):
    """Writes down every callback, in order; futures tell when the interesting ones came."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.received = bytearray()
        self.transport: Any = None
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.keep_open = False
        self._wanted = 0
        self._enough: asyncio.Future[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.note("data")
        self.received += data
        enough = self._enough
        if enough is not None and len(self.received) >= self._wanted and not enough.done():
            enough.set_result(None)

    def eof_received(self) -> bool:
        self.events.append("eof")
        self.ended.set_result(None)
        return self.keep_open

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def note(self, event: str) -> None:
        if self.events[-1] != event:
            self.events.append(event)

    async def receive(self, count: int) -> bytes:
        """The first `count` bytes, once they are there."""
        if len(self.received) < count:
            self._wanted = count
            self._enough = asyncio.get_running_loop().create_future()
            await self._enough
        return bytes(self.received[:count])


@contextlib.contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection over loopback; closed afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), timeout=30)
        far, _ = listener.accept()
    far.settimeout(30)
    with near, far:
        yield near, far


async def attach(sock: socket.socket, factory: Callable[[], Any] = Recorder) -> tuple[Any, Any]:
    """(transport, protocol) over `sock`, connection_made() has run."""
    sock.setblocking(False)
    return await asyncio.get_running_loop().create_connection(factory, sock=sock)


async def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a blocking call of the peer in another thread."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def read_all(sock: socket.socket) -> bytes:
    """Everything until the peer's end of stream."""
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def read_exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(1 << 16, count - len(parts)))
        assert part, f"end of stream after {len(parts)} of {count} bytes"
        parts += part
    return bytes(parts)


def reset(sock: socket.socket) -> None:
    """Closes so that the peer sees ECONNRESET."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


async def turns(count: int = 3) -> None:
    """Lets the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)
