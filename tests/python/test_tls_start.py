"""start_tls(): from plain text to TLS in the middle of a connection, and TLS inside TLS."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import socket
import ssl
from typing import Any

import pytest

from harness import certificates
from harness.certificates import authority, good
from harness.tcp import Recorder, attach, elsewhere, tcp_pair, turns
from harness.tls import Peer, serving, talking


def server_context() -> ssl.SSLContext:
    return certificates.server(good())


async def start_tls(transport: Any, protocol: Any, **options: Any) -> Any:
    options.setdefault("server_hostname", "localhost")
    return await asyncio.get_running_loop().start_tls(
        transport, protocol, authority().client(), **options)


@contextlib.asynccontextmanager
async def stream_server(handler: Any):
    """The port of start_server(); the handler's exceptions come out here."""
    failures: list[BaseException] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except BaseException as error:
            failures.append(error)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await turns()
    assert failures == []


async def test_both_ends_of_a_stream_start_tls():
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go ahead\n")
        await writer.start_tls(server_context())
        while line := await reader.readline():
            writer.write(line.upper())
        writer.close()
        await writer.wait_closed()

    async with stream_server(handler) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go ahead\n"
        await writer.start_tls(authority().client(), server_hostname="localhost")
        assert writer.get_extra_info("cipher") is not None
        for _ in range(3):
            writer.write(b"secret\n")
            assert await reader.readline() == b"SECRET\n"
        writer.close()
        await writer.wait_closed()


async def test_what_a_reader_has_read_ahead_belongs_to_the_handshake():
    """A client's hello behind a proxy's line stayed in the reader's buffer: the handshake hung
    (gh-142352, all versions before 3.15)."""
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"PROXY TCP4 ...\r\n"
        while not reader._buffer:
            await asyncio.sleep(0.001)
        await writer.start_tls(server_context())
        assert await reader.readexactly(5) == b"hello"
        writer.write(b"answer")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 30) as sock:
            peer = Peer(sock, authority().client())
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.tls.do_handshake()
            sock.sendall(b"PROXY TCP4 ...\r\n" + peer.outgoing.read())
            peer.handshake().send(b"hello")
            assert peer.receive_all() == b"answer"
            peer.end()

    async with stream_server(handler) as port:
        await elsewhere(client, port)


async def test_what_the_transport_holds_belongs_to_the_handshake():
    """The protocol paused reading at the right byte; more had arrived by then."""
    class Pausing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.received == b"STARTTLS\n":
                self.transport.pause_reading()

    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Pausing)
        far.sendall(b"STARTTLS\n")
        await protocol.receive(9)
        client = asyncio.ensure_future(
            elsewhere(lambda: Peer(far, authority().client()).handshake()))
        await asyncio.sleep(0.05)
        tls = await asyncio.get_running_loop().start_tls(
            transport, protocol, server_context(), server_side=True)
        (await client).send(b"hello")
        assert await protocol.receive(14) == b"STARTTLS\nhello"
        tls.abort()
        assert await protocol.lost is None
    assert protocol.events == ["made", "data", "lost"]


async def test_plain_text_behind_the_reply_is_never_read_as_if_it_had_come_through_tls():
    """Whoever is in the way may put bytes behind the last plain-text line. A reader used to find
    them after the handshake, and could not tell."""
    def script(sock: socket.socket) -> None:
        assert sock.recv(100) == b"STARTTLS\n"
        sock.sendall(b"go ahead\nfrom the attacker\n")
        with contextlib.suppress(ConnectionResetError, AssertionError):
            Peer(sock, server_context(), server_side=True).handshake().send(b"from the server\n")

    async with talking(script) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go ahead\n"
        while not reader._buffer:
            await asyncio.sleep(0.001)
        with pytest.raises(ssl.SSLError):
            await writer.start_tls(authority().client(), server_hostname="localhost")
        with pytest.raises(ssl.SSLError):
            await reader.read()


async def test_a_reader_s_flow_control_acts_on_the_new_transport():
    """It kept the old one (gh-152431): pausing it bypassed TLS, and a later resume went nowhere."""
    size = 2_000_000
    paused = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await writer.start_tls(server_context())
        assert reader._transport is writer.transport
        while not reader._paused:
            await asyncio.sleep(0.001)
        assert not writer.transport.is_reading()
        paused.set()
        assert await reader.readexactly(size) == bytes(size)

    async with stream_server(handler) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"STARTTLS\n")
        await writer.start_tls(authority().client(), server_hostname="localhost")
        writer.write(bytes(size))
        await paused.wait()
        assert await reader.read() == b""
        writer.transport.abort()


async def test_a_protocol_keeps_its_life_and_is_not_made_twice():
    def script(sock: socket.socket) -> None:
        peer = Peer(sock, server_context(), server_side=True).handshake()
        peer.send(b"hello")
        peer.end()
        peer.receive_all()

    async with talking(script) as port:
        plain, protocol = await asyncio.get_running_loop().create_connection(
            Recorder, "127.0.0.1", port)
        transport = await start_tls(plain, protocol)
        assert protocol.transport is plain
        assert transport is not plain and transport.get_protocol() is protocol
        assert await protocol.lost is None
    assert protocol.events == ["made", "data", "eof", "lost"]


async def test_wrong_arguments_are_refused():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        loop = asyncio.get_running_loop()
        for context in (None, True, "context"):
            with pytest.raises(TypeError, match="SSLContext"):
                await loop.start_tls(transport, protocol, context)
        with pytest.raises(TypeError, match="not supported"):
            await loop.start_tls(object(), protocol, authority().client())
        with pytest.raises(ValueError, match="timeout"):
            await start_tls(transport, protocol, ssl_handshake_timeout=0)
        far.sendall(b"still plain")
        assert await protocol.receive(11) == b"still plain"
        transport.close()
        with pytest.raises(ConnectionAbortedError, match="closing"):
            await start_tls(transport, protocol)
        assert await protocol.lost is None


async def test_a_peer_that_ended_already_is_no_hang():
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"STARTTLS\n"
        with pytest.raises(ConnectionResetError):
            await writer.start_tls(server_context())

    async with stream_server(handler) as port:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"STARTTLS\n")
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while await elsewhere(client.recv, 1 << 16):
                    pass


@pytest.mark.parametrize("how", ["cancelled", "out of time", "reset", "ended", "aborted"])
async def test_a_protocol_hears_of_a_handshake_that_fails(how):
    """With a reset in the middle of it, connection_lost() was never called."""
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        timeout = 0.05 if how == "out of time" else None
        task = asyncio.ensure_future(
            start_tls(transport, protocol, ssl_handshake_timeout=timeout))
        assert await elsewhere(far.recv, 1 << 16)
        if how == "cancelled":
            task.cancel()
        elif how == "reset":
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            far.close()
        elif how == "ended":
            far.shutdown(socket.SHUT_WR)
        elif how == "aborted":
            transport.abort()
        expected = {"cancelled": asyncio.CancelledError, "reset": ConnectionResetError,
                    "ended": ConnectionResetError}.get(how, ConnectionAbortedError)
        with pytest.raises(expected):
            await task
        lost = await protocol.lost
        assert lost is None if how in ("cancelled", "aborted") else isinstance(lost, expected)
    assert protocol.events == ["made", "lost"]


# ---- TLS inside TLS


class Inner(Recorder):
    """Starts TLS inside the TLS that it is served over."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(
            loop.start_tls(transport, self, server_context(), server_side=True))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.task.result().write(data)


async def nested(port: int) -> tuple[Any, Any, Recorder]:
    outer, protocol = await asyncio.get_running_loop().create_connection(
        Recorder, "127.0.0.1", port, ssl=authority().client(), server_hostname="localhost")
    return outer, await start_tls(outer, protocol), protocol


async def test_tls_inside_tls_carries_both_ways():
    async with serving(server_context(), Inner) as port:
        outer, inner, protocol = await nested(port)
        assert inner.get_extra_info("ssl_object") is not outer.get_extra_info("ssl_object")
        assert inner.get_extra_info("peername") == ("127.0.0.1", port)
        data = bytes(range(256)) * 4000
        inner.write(data)
        assert await protocol.receive(len(data)) == data
        inner.close()
        assert await protocol.lost is None
        assert outer.is_closing()
    assert protocol.events == ["made", "data", "eof", "lost"]


async def test_tls_inside_tls_may_be_aborted():
    """CPython 3.11 and 3.12 failed with TypeError in _force_close()."""
    async with serving(server_context(), Inner) as port:
        outer, inner, protocol = await nested(port)
        inner.abort()
        assert await protocol.lost is None
    assert protocol.events == ["made", "lost"]


async def test_nothing_is_delivered_before_the_caller_has_the_transport():
    """Data and an end that came with the handshake reached the protocol before."""
    def script(sock: socket.socket) -> None:
        peer = Peer(sock, server_context(), server_side=True)
        while True:
            try:
                peer.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                peer.flush()
                peer.more()
        last = peer.outgoing.read() + peer.sealed(b"hello")
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()
        sock.sendall(last + peer.outgoing.read())
        sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            peer.receive_all()

    async with talking(script) as port:
        plain, protocol = await asyncio.get_running_loop().create_connection(
            Recorder, "127.0.0.1", port)
        client = authority().client()
        client.maximum_version = ssl.TLSVersion.TLSv1_2     # the server's message is the last one
        transport = await asyncio.get_running_loop().start_tls(
            plain, protocol, client, server_hostname="localhost")
        assert protocol.events == ["made"]
        assert transport.is_reading()
        assert await protocol.lost is None
    assert protocol.events == ["made", "data", "eof", "lost"]
    assert protocol.received == b"hello"


async def test_what_came_during_start_tls_is_delivered_in_the_connection_s_context():
    """Not in that of the task that asked for TLS."""
    where = contextvars.ContextVar("where", default="outside")
    seen = []

    class Noting(Recorder):
        def data_received(self, data: bytes) -> None:
            seen.append(where.get())
            super().data_received(data)

    with tcp_pair() as (near, far):
        where.set("connection")
        transport, protocol = await attach(near, Noting)
        where.set("task")
        peer = asyncio.ensure_future(elsewhere(
            lambda: Peer(far, server_context(), server_side=True).handshake().send(b"early")))
        tls = await start_tls(transport, protocol)
        await protocol.receive(5)
        await peer
        tls.abort()
        await protocol.lost
    assert seen == ["connection"]
