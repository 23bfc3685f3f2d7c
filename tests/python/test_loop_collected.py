"""Loops that nobody closed are collected with all that they have open, as asyncio's are."""
from __future__ import annotations

import asyncio
import gc
import os
import socket
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import ringloop


class Holder:
    """Something in a cycle with the loop."""


class Protocol(asyncio.Protocol):
    """asyncio's own takes no attributes."""


class DatagramProtocol(asyncio.DatagramProtocol):
    """asyncio's own takes no attributes."""


def with_a_timer(loop: Any) -> None:
    holder: Any = Holder()
    holder.loop = loop
    holder.handle = loop.call_later(1000, lambda: holder)


def with_a_handle_of_another_thread(loop: Any) -> None:
    holder: Any = Holder()
    holder.loop = loop
    holder.handle = loop.call_soon_threadsafe(print, holder)


def with_a_stream(loop: Any) -> None:
    async def main() -> socket.socket:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        task = asyncio.create_task(reader.read(10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        holder: Any = Holder()
        writer.holder = holder      # type: ignore[attr-defined]
        holder.all = (reader, writer, task, loop)
        return theirs

    loop.run_until_complete(main()).close()


def with_a_write_that_waits(loop: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Protocol, sock=ours)
        protocol.all = (transport, theirs, loop)
        transport.write(bytes(4 << 20))
        await asyncio.sleep(0)
        transport.write(b"more")

    loop.run_until_complete(main())


def with_a_write_behind_the_run(loop: Any) -> None:
    ours, theirs = socket.socketpair()
    transport, protocol = loop.run_until_complete(
        loop.create_connection(Protocol, sock=ours))
    protocol.all = (transport, theirs, loop)
    transport.write(b"data")


def with_a_server(loop: Any) -> None:
    async def main() -> None:
        server: Any = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        server.holder = server

    loop.run_until_complete(main())


def with_a_connection_of_a_server(loop: Any) -> None:
    async def main() -> None:
        async def answer(reader: Any, writer: Any) -> None:
            writer.write(await reader.read(100))
            await reader.read(100)

        server: Any = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        server.all = (server, reader, writer)

    loop.run_until_complete(main())


def with_an_endpoint(loop: Any) -> None:
    async def main() -> None:
        transport, protocol = await loop.create_datagram_endpoint(
            DatagramProtocol, local_addr=("127.0.0.1", 0))
        protocol.transport = transport

    loop.run_until_complete(main())


def with_a_watch_and_a_receive(loop: Any) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop.add_writer(theirs, lambda: loop)

    async def main() -> None:
        holder: Any = Holder()
        holder.all = (loop, theirs, asyncio.create_task(loop.sock_recv(ours, 10)))
        holder.me = holder
        await asyncio.sleep(0)

    loop.run_until_complete(main())


CASES: list[Callable[[Any], None]] = [
    with_a_timer, with_a_handle_of_another_thread, with_a_stream, with_a_write_that_waits,
    with_a_write_behind_the_run, with_a_server, with_a_connection_of_a_server, with_an_endpoint,
    with_a_watch_and_a_receive]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def collect() -> None:
    for _ in range(3):
        gc.collect()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_loop_that_nobody_closed_is_collected(backend: str, case: Callable[[Any], None],
                                                caplog: pytest.LogCaptureFixture) -> None:
    """It used to stay for good, with its ring and its sockets."""
    collect()
    before = descriptors()
    loop = ringloop.new_event_loop(backend=backend)
    case(loop)
    gone = weakref.ref(loop)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del loop
        collect()
    said = [str(each.message) for each in caught if each.category is ResourceWarning]
    caught.clear()      # each keeps the object that it is about
    collect()
    assert gone() is None
    assert descriptors() == before
    assert any(text.startswith("unclosed event loop") for text in said), said


@pytest.mark.logs_errors        # the loops' tasks are pending
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_is_collected_whatever_its_finalizer_does(backend: str,
                                                     case: Callable[[Any], None]) -> None:
    class Silent(ringloop.EventLoop):
        def __del__(self) -> None:
            self._close_signal_pipe()

    collect()
    before = descriptors()
    loop = Silent(backend=backend)
    case(loop)
    gone = weakref.ref(loop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del loop
        collect()
    assert gone() is None
    assert descriptors() == before


def test_what_a_loop_has_in_flight_lives_as_long_as_the_loop(loop: Any) -> None:
    got: list[bytes] = []

    class Noting(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            got.append(data)
            if len(got) == 3:
                loop.stop()

    async def main() -> socket.socket:
        ours, theirs = socket.socketpair()
        await loop.create_connection(Noting, sock=ours)      # nobody keeps it
        server = await loop.create_server(Noting, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        return theirs

    port: list[int] = []
    with loop.run_until_complete(main()) as theirs:
        collect()
        theirs.send(b"1")
        with socket.create_connection(("127.0.0.1", port[0])) as client:
            client.send(b"2")

            def again() -> None:
                collect()
                theirs.send(b"3")

            loop.call_later(0.05, again)
            loop.run_forever()
    assert sorted(got) == [b"1", b"2", b"3"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop.close()
        collect()


def test_a_timer_that_outlives_its_loop_holds_nothing(backend: str) -> None:
    loop = ringloop.new_event_loop(backend=backend)
    holder: Any = Holder()
    holder.loop = loop
    handle = loop.call_later(1000, lambda held: held, holder)
    gone = weakref.ref(holder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del holder, loop
        collect()
    assert gone() is None
    assert handle._callback is None and "TimerHandle" in repr(handle)
    handle.cancel()
