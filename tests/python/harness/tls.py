"""TLS connections for tests: servers of ours, and the other end by hand, whose bytes may be spoilt.
"""
from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, AsyncIterator, Callable

from harness.tcp import Recorder, elsewhere


class Peer:
    """TLS over `sock`. All calls block: run them elsewhere()."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool = False,
                 server_hostname: str | None = None) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side,
                                    server_hostname or (None if server_side else "localhost"))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def flush(self) -> None:
        """Sends what OpenSSL has to say."""
        if self.outgoing.pending:
            self.sock.sendall(self.outgoing.read())

    def more(self) -> bool:
        """Takes some bytes from the socket; False at its end."""
        data = self.sock.recv(1 << 16)
        self.incoming.write(data)
        return bool(data)

    def handshake(self) -> Peer:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                assert self.more(), "end of stream in the handshake"
            else:
                self.flush()
                return self

    def sealed(self, data: bytes) -> bytes:
        """The records that carry `data`."""
        self.tls.write(data)
        return self.outgoing.read()

    def send(self, data: bytes) -> None:
        self.sock.sendall(self.sealed(data))

    def receive(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        parts = bytearray()
        while len(parts) < count:
            part = self.receive_some(count - len(parts))
            assert part, f"end of stream after {len(parts)} of {count} bytes"
            parts += part
        return bytes(parts)

    def receive_some(self, count: int = 1 << 16) -> bytes:
        """Some bytes; b"" at TLS's own end. EOFError: the stream ended without it."""
        while True:
            try:
                return self.tls.read(count)
            except ssl.SSLWantReadError:
                self.flush()
                if not self.more():
                    raise EOFError("no close_notify") from None
            except ssl.SSLZeroReturnError:
                return b""

    def receive_all(self) -> bytes:
        """Everything up to TLS's own end."""
        parts = []
        while part := self.receive_some():
            parts.append(part)
        return b"".join(parts)

    def end(self) -> None:
        """Sends TLS's own end, without waiting for the other's."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass  # its answer may come or not
        self.flush()


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext, factory: Callable[[], Any] = Recorder,
                  **options: Any) -> AsyncIterator[int]:
    """The port of a server; at the end it is closed, with all its connections, and has reported
    nothing but failed handshakes, which are told in debug mode."""
    told: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()

    def take(loop: asyncio.AbstractEventLoop, what: dict[str, Any]) -> None:
        if not loop.get_debug() or "incoming connection" not in what["message"]:
            told.append(what)

    loop.set_exception_handler(take)
    server = await loop.create_server(factory, "127.0.0.1", 0, ssl=context, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)
    assert told == []


@contextlib.asynccontextmanager
async def talking(script: Callable[[socket.socket], None]) -> AsyncIterator[int]:
    """The port of a blocking server that runs `script` for its only client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(30)
                script(connection)

        task = asyncio.ensure_future(elsewhere(run))
        yield listener.getsockname()[1]
        await task
