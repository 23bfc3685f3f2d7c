"""The servers that the load cells measure: by name, what starts one on a running loop.

A service returns its address: a port of 127.0.0.1, or the path of a Unix socket.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

BACKLOG = 4096
STREAM_LIMIT = 1 << 18
SOCK_RECV_BYTES = 100 * 1024
READ_BYTES = 1 << 18
kept: list[Any] = []        # what must live as long as the process


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class BufferedEcho(asyncio.BufferedProtocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]
        self.buffer = bytearray(READ_BYTES)
        self.view = memoryview(self.buffer)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(bytes(self.view[:nbytes]))


class DatagramEcho(asyncio.DatagramProtocol):
    transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data, addr)


class CloseAtOnce(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class SendFile(asyncio.Protocol):
    """Each request, of any bytes, is answered with the whole file."""
    path: str
    transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport      # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.sending = asyncio.get_running_loop().create_task(self.send())

    async def send(self) -> None:
        with open(self.path, "rb") as file:
            await asyncio.get_running_loop().sendfile(self.transport, file)


Read = Callable[[asyncio.StreamReader], Awaitable[bytes]]


def streams(read: Read) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """An echo of what each `read` gives."""
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while data := await read(reader):
                writer.write(data)
                await writer.drain()
        writer.close()

    return connected


async def close_stream_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


READS: dict[str, Read] = {
    "read": lambda reader: reader.read(READ_BYTES), "readline": lambda reader: reader.readline(),
    "readuntil": lambda reader: reader.readuntil(b"\n"),
    "readexactly": lambda reader: reader.readexactly(64),
}


def tls_context(folder: Path) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return made


async def protocol(factory: Callable[[], asyncio.BaseProtocol], **options: Any) -> str:
    loop = asyncio.get_running_loop()
    return _port(await loop.create_server(factory, "127.0.0.1", 0, backlog=BACKLOG, **options))


async def stream(connected: Any, **options: Any) -> str:
    return _port(await asyncio.start_server(connected, "127.0.0.1", 0, backlog=BACKLOG,
                                            limit=STREAM_LIMIT, **options))


async def unix(factory: Callable[[], asyncio.BaseProtocol], path: Path) -> str:
    loop = asyncio.get_running_loop()
    kept.append(await loop.create_unix_server(factory, str(path), backlog=BACKLOG))
    return str(path)


async def datagrams() -> str:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(DatagramEcho, local_addr=("127.0.0.1", 0))
    kept.append(transport)
    return str(transport.get_extra_info("sockname")[1])


def listening() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.bind(("127.0.0.1", 0))
    made.listen(BACKLOG)
    made.setblocking(False)
    kept.append(made)
    return made


async def sock_calls() -> str:
    """An echo by sock_accept(), sock_recv() and sock_sendall()."""
    loop, server = asyncio.get_running_loop(), listening()
    serving: set[asyncio.Task[None]] = set()

    async def serve(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(client, SOCK_RECV_BYTES):
                await loop.sock_sendall(client, data)

    async def accept() -> None:
        while True:
            client, _ = await loop.sock_accept(server)
            client.setblocking(False)
            serving.add(task := loop.create_task(serve(client)))
            task.add_done_callback(serving.discard)

    kept.append(loop.create_task(accept()))
    return str(server.getsockname()[1])


def _port(server: asyncio.Server) -> str:
    kept.append(server)
    return str(server.sockets[0].getsockname()[1])


def send_file(folder: Path) -> Callable[[], asyncio.Protocol]:
    class Sender(SendFile):
        path = str(folder / "file")

    return Sender


def all_services(folder: Path) -> dict[str, Callable[[], Awaitable[str]]]:
    """`folder` has the certificate and the file, and is where Unix sockets are bound."""
    from cells import web

    found: dict[str, Callable[[], Awaitable[str]]] = {
        "protocol": lambda: protocol(Echo), "buffered": lambda: protocol(BufferedEcho),
        "tls protocol": lambda: protocol(Echo, ssl=tls_context(folder)),
        "tls streams": lambda: stream(streams(READS["read"]), ssl=tls_context(folder)),
        "close protocol": lambda: protocol(CloseAtOnce),
        "close streams": lambda: stream(close_stream_at_once),
        "unix": lambda: unix(Echo, folder / f"{os.getpid()}.sock"),
        "datagrams": datagrams, "sock": sock_calls,
        "sendfile": lambda: protocol(send_file(folder)),
        "uvicorn": lambda: web.uvicorn_app(listening()),
        "aiohttp": lambda: web.aiohttp_app(listening()),
        "websockets": lambda: web.websocket_app(listening()),
    }
    for name, read in READS.items():
        found[f"streams {name}"] = lambda read=read: stream(streams(read))  # type: ignore[misc]
    return found
