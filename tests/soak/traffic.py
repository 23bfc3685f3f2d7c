"""Traffic of each kind, for soak runs: servers that live as long as the loop, and short pieces of
work against them.

A piece checks what it gets, may be cancelled at any await, and then has let go of all it had when
it ends. Thread: the loop's. Needs Linux's cat and an openssl command, nothing outside loopback.
"""
from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import signal
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable

import ringloop

from harness import certificates, datagrams
from harness.tcp import Recorder

IDLE_LIMIT_S = 30.0
SIZES = (1, 100, 5_000, 60_000, 400_000)
BYTES = os.urandom(max(SIZES))


class Ground:
    """The servers of one loop's life, and what it reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unix = folder / "echo"
        self.abstract = f"\0{folder}"
        self.server_tls = certificates.server(certificates.good())
        self.client_tls = certificates.authority().client()
        self.file = folder / "file"
        self.file.write_bytes(BYTES)
        self.tcp = self.tls = self.upgrading = 0
        self.udp: Any = None
        self.waiting: list[asyncio.Future[None]] = []       # for the signal
        self.reports: list[str] = []
        self._servers: list[asyncio.Server] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._report)
        loop.add_signal_handler(signal.SIGUSR1, self._signalled)
        plain, upgrading = self._handler(_echo), self._handler(self._upgrade)
        self.tcp = await self._serve(asyncio.start_server(plain, "127.0.0.1", 0, backlog=1_000))
        self.tls = await self._serve(asyncio.start_server(
            plain, "127.0.0.1", 0, ssl=self.server_tls, backlog=1_000))
        self.upgrading = await self._serve(asyncio.start_server(upgrading, "127.0.0.1", 0))
        for path in (self.unix, self.abstract):
            await self._serve(asyncio.start_unix_server(plain, path))
        self._udp, protocol = await datagrams.endpoint(_DatagramEcho)
        self.udp = datagrams.name(self._udp)

    async def idle(self) -> None:
        """Returns once nothing but the servers is left. TimeoutError names what does not end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + IDLE_LIMIT_S
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            if loop.time() > deadline:
                raise TimeoutError(f"still there when all was done: {left}")
            await asyncio.wait(left, timeout=1)
        for _ in range(3):      # connection_lost() of both sides
            await asyncio.sleep(0.002)

    async def close(self) -> None:
        await self.idle()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
        for server in self._servers:
            server.close()
            await server.wait_closed()
        await datagrams.close(self._udp)
        with contextlib.suppress(FileNotFoundError):
            self.unix.unlink()  # CPython before 3.13 leaves it

    async def _serve(self, starting: Awaitable[asyncio.Server]) -> int:
        self._servers.append(await starting)
        name = self._servers[-1].sockets[0].getsockname()
        return name[1] if isinstance(name, tuple) else 0

    def _handler(self, serve: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
            except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
                pass    # the client was cancelled
            finally:
                await _end(writer)
        return handle

    async def _upgrade(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline() != b"STARTTLS\n":
            return      # the client was cancelled
        writer.write(b"OK\n")
        await writer.start_tls(self.server_tls)
        await _echo(reader, writer)

    def _signalled(self) -> None:
        for each in self.waiting:
            if not each.done():
                each.set_result(None)
        self.waiting.clear()

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if loop.get_debug() and "incoming connection" in context["message"]:
            return      # a client was cancelled in its handshake
        self.reports.append(f"{context['message']}: {context.get('exception')!r}")
        made = context.get("source_traceback")
        if made is not None:        # in debug mode: where the future or the task was made
            print(f"{self.reports[-1]}\n{''.join(made.format())}", flush=True)


@contextlib.asynccontextmanager
async def ground() -> AsyncIterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="ringloop-soak-") as folder:
        made = Ground(Path(folder))
        await made.open()
        yield made
        await made.close()


class _DatagramEcho(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.transport.sendto(data, address)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _end(writer: asyncio.StreamWriter) -> None:
    """At once, where it was cancelled. Takes the stream's error, which is told otherwise, if the
    garbage collector finalizes the stream's future before its protocol."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


def _data(source: random.Random) -> bytes:
    return BYTES[:source.choice(SIZES)]


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
                source: random.Random) -> None:
    try:
        for _ in range(source.randint(1, 3)):
            data = _data(source)
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
            await writer.drain()
        writer.close()
        await writer.wait_closed()
    finally:
        await _end(writer)


# ---- the kinds

async def tcp(ground: Ground, source: random.Random) -> None:
    await _talk(*await asyncio.open_connection("127.0.0.1", ground.tcp), source)


async def protocol(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    transport, recorder = await loop.create_connection(Recorder, "127.0.0.1", ground.tcp)
    try:
        data = _data(source)
        transport.writelines([data, bytearray(data)])
        assert await recorder.receive(2 * len(data)) == 2 * data
        if source.random() < 0.5:
            transport.write_eof()
            await asyncio.shield(recorder.ended)
        transport.close()
        await asyncio.shield(recorder.lost)
    finally:
        transport.abort()


async def tls(ground: Ground, source: random.Random) -> None:
    await _talk(*await asyncio.open_connection("127.0.0.1", ground.tls, ssl=ground.client_tls,
                                               server_hostname="localhost"), source)


async def start_tls(ground: Ground, source: random.Random) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", ground.upgrading)
    try:
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"OK\n"
        await writer.start_tls(ground.client_tls, server_hostname="localhost")
        await _talk(reader, writer, source)
    finally:
        await _end(writer)


async def unix(ground: Ground, source: random.Random) -> None:
    path = source.choice([ground.unix, ground.abstract])
    await _talk(*await asyncio.open_unix_connection(path), source)


async def udp(ground: Ground, source: random.Random) -> None:
    transport, recorder = await datagrams.endpoint(remote_addr=ground.udp)
    try:
        data = BYTES[:source.randint(1, 1_000)]    # an empty one is sent from 3.13 on
        while not recorder.received:
            transport.sendto(data)
            with contextlib.suppress(TimeoutError):     # the kernel may drop one
                await asyncio.wait_for(recorder.receive(1), 5)
        assert recorder.received[0][0] == data
        transport.close()
        await asyncio.shield(recorder.lost)
    finally:
        transport.abort()


async def child(ground: Ground, source: random.Random) -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE)
    try:
        if source.random() < 0.2:
            process.kill()
            await process.communicate()
        else:
            data = _data(source)
            assert await process.communicate(data) == (data, None)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def pipes(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    read, write = (open(fd, mode) for fd, mode in zip(os.pipe(), ("rb", "wb")))
    with read, write:
        reader = asyncio.StreamReader()
        incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), read)
        try:
            outgoing, _ = await loop.connect_write_pipe(asyncio.Protocol, write)
            try:
                outgoing.write(b"x" * 1_000)
                assert len(await reader.readexactly(1_000)) == 1_000
                outgoing.close()
                assert await reader.read() == b""
            finally:
                outgoing.abort()
        finally:
            incoming.close()
        await asyncio.sleep(0)


async def files(ground: Ground, source: random.Random) -> None:
    path = ground.folder / f"{source.getrandbits(64):x}"
    data = _data(source)
    try:
        async with ringloop.open(path, "wb+") as file:
            await file.write(data)
            assert await file.pread(len(data), offset=0) == data
        assert (await ringloop.fs.stat(path)).st_size == len(data)
        await ringloop.fs.write_bytes(path, data[:7])
        assert await ringloop.fs.read_bytes(path) == data[:7]
        async with ringloop.open(path, "r", encoding="latin-1") as text:
            assert len(await text.read()) == len(data[:7])
    finally:
        path.unlink(missing_ok=True)


async def sendfile(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    transport, recorder = await loop.create_connection(Recorder, "127.0.0.1", ground.tcp)
    try:
        with open(ground.file, "rb") as file:
            count = source.choice(SIZES)
            assert await loop.sendfile(transport, file, 0, count) == count
        assert await recorder.receive(count) == BYTES[:count]
        transport.close()
        await asyncio.shield(recorder.lost)
    finally:
        transport.abort()


async def sockets(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    data = _data(source)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as near:
        listener.setblocking(False)
        near.setblocking(False)
        await loop.sock_connect(near, listener.getsockname())
        far, _ = await loop.sock_accept(listener)
        with far:
            sending = asyncio.ensure_future(loop.sock_sendall(near, data))
            try:
                left = len(data)
                while left:
                    left -= len(await loop.sock_recv(far, 1 << 16))
            finally:
                sending.cancel()
                await asyncio.wait([sending])


async def threads(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    await loop.run_in_executor(None, loop.call_soon_threadsafe, woken.set)
    await woken.wait()
    assert await loop.getaddrinfo("localhost", 80, family=socket.AF_INET)


async def timers(ground: Ground, source: random.Random) -> None:
    loop = asyncio.get_running_loop()
    handles = [loop.call_later(3_600, print, number) for number in range(source.randint(1, 50))]
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(source.random() / 100):
                await asyncio.sleep(0.01)
    finally:
        for handle in handles:
            handle.cancel()


async def signals(ground: Ground, source: random.Random) -> None:
    ground.waiting.append(asyncio.get_running_loop().create_future())
    waiting = ground.waiting[-1]
    os.kill(os.getpid(), signal.SIGUSR1)
    await waiting


async def refused(ground: Ground, source: random.Random) -> None:
    with socket.socket() as bound:      # and not listening
        bound.bind(("127.0.0.1", 0))
        with contextlib.suppress(ConnectionRefusedError):
            await asyncio.open_connection(*bound.getsockname())
            raise AssertionError("connected to nobody")


async def kernels(ground: Ground, source: random.Random) -> None:
    import numpy
    square = numpy.full((64, 64), source.random(), dtype=numpy.float32)
    product = await ringloop.kernels.matmul(square, square)
    numpy.testing.assert_allclose(product, 64 * square * square, rtol=1e-4)
    frame = numpy.zeros((40, 50, 3), dtype=numpy.uint8)
    assert (await ringloop.kernels.jpeg_encode(frame))[:2] == b"\xff\xd8"


Kind = Callable[[Ground, random.Random], Awaitable[None]]
KINDS: dict[str, Kind] = {each.__name__: each for each in (
    tcp, protocol, tls, start_tls, unix, udp, child, pipes, files, sendfile, sockets, threads,
    timers, signals, refused)}
if importlib.util.find_spec("ringloop._kernels") and importlib.util.find_spec("numpy"):
    KINDS["kernels"] = kernels
