"""1 GiB is written to a peer that reads a byte a second: memory stays bounded, the loop turns on,
and an abort frees all of it."""
from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import time
from typing import Any, Awaitable, Callable, Iterator

import pytest

from harness import certificates
from harness.loops import Run
from harness.tls import Peer
from soak.memory import anonymous_kib

TOTAL = 1 << 30
PIECE = bytes(1 << 16)
READS = 2                   # bytes, a second between them
BOUND_KIB = 8 * 1024        # what the process of the writer may grow by: buffers, and the looking
TICK_S = 0.01


class SlowReader:
    """A blocking peer in a thread of its own; `over` once it has read READS bytes."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(30)
        self._context = context
        self._ended = threading.Event()
        self.address = self._listener.getsockname()
        self.over = threading.Event()
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        try:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(30)
                peer = None if self._context is None else \
                    Peer(connection, self._context, server_side=True).handshake()
                for _ in range(READS):
                    assert (connection.recv(1) if peer is None else peer.receive(1)) == b"\0"
                    self._ended.wait(1)
                self.over.set()
                self._ended.wait(60)
        except Exception as error:
            self.failure = repr(error)
            self.over.set()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()
        assert self.failure is None, self.failure


@contextlib.contextmanager
def slow_reader(context: ssl.SSLContext | None = None) -> Iterator[SlowReader]:
    made = SlowReader(context)
    try:
        yield made
    finally:
        made.close()


class Watcher:
    """Looks at memory and at the loop's pace until the reader is through."""

    def __init__(self) -> None:
        gc.collect()
        self.first_kib = anonymous_kib()
        self.growth_kib = self.ticks = 0

    async def until(self, reader: SlowReader) -> None:
        begin = time.monotonic()
        while not reader.over.is_set():
            await asyncio.sleep(TICK_S)
            self.ticks += 1
            self.growth_kib = max(self.growth_kib, anonymous_kib() - self.first_kib)
        seconds = time.monotonic() - begin
        print(f"grew by {self.growth_kib} KiB in {seconds:.1f} s, {self.ticks} turns")
        assert self.growth_kib < BOUND_KIB
        assert self.ticks > seconds * 2     # a hundred a second, but for a busy machine


class Pausing(asyncio.Protocol):
    """Writes TOTAL bytes, as long as it is not told to pause."""

    def __init__(self) -> None:
        self.written = 0
        self.paused = False
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.go_on()

    def go_on(self) -> None:
        while self.written < TOTAL and not self.paused:
            self.written += len(PIECE)
            self.transport.write(PIECE)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


async def by_protocol(reader: SlowReader, watcher: Watcher) -> None:
    transport, protocol = await asyncio.get_running_loop().create_connection(
        Pausing, *reader.address)
    protocol.go_on()
    await watcher.until(reader)
    assert protocol.paused and 0 < protocol.written < TOTAL
    assert 0 < transport.get_write_buffer_size() <= TOTAL >> 10
    transport.abort()
    assert await protocol.lost is None


async def by_streams(reader: SlowReader, watcher: Watcher, **options: Any) -> None:
    _, writer = await asyncio.open_connection(*reader.address, **options)

    async def write() -> None:
        for _ in range(TOTAL // len(PIECE)):
            writer.write(PIECE)
            await writer.drain()

    writing = asyncio.create_task(write())
    await watcher.until(reader)
    assert not writing.done()
    assert 0 < writer.transport.get_write_buffer_size() <= TOTAL >> 10
    writer.transport.abort()
    with pytest.raises(ConnectionResetError):
        await writing


async def by_streams_over_tls(reader: SlowReader, watcher: Watcher) -> None:
    await by_streams(reader, watcher, ssl=certificates.authority().client(),
                     server_hostname="localhost")


async def by_one_write(reader: SlowReader, watcher: Watcher) -> None:
    _, writer = await asyncio.open_connection(*reader.address)
    data = bytes(TOTAL)         # zeros that nobody wrote: not resident, unless somebody copies
    writer.write(data)
    assert writer.transport.get_write_buffer_size() > TOTAL // 2
    await watcher.until(reader)
    assert writer.transport.get_write_buffer_size() > TOTAL // 2
    writer.transport.abort()
    with pytest.raises(ConnectionResetError):
        await writer.drain()


Way = Callable[[SlowReader, Watcher], Awaitable[None]]


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("way", [by_protocol, by_streams, by_streams_over_tls, by_one_write])
def test_a_gibibyte_for_a_reader_of_a_byte_a_second_takes_bounded_memory(
        run: Run, way: Way) -> None:
    async def main() -> None:
        tls = way is by_streams_over_tls
        context = certificates.server(certificates.good()) if tls else None
        certificates.authority()
        with slow_reader(context) as reader:
            watcher = Watcher()
            await way(reader, watcher)
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        assert anonymous_kib() - watcher.first_kib < BOUND_KIB

    run(main())
