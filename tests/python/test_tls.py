"""TLS in use: streams, protocols, what a connection tells of itself, writing, flow control."""
from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import ssl
import threading
from typing import Any

import pytest

from harness import certificates
from harness.certificates import authority, good
from harness.tcp import Recorder, elsewhere, tcp_pair, turns
from harness.tls import Peer, serving, talking

TLS12 = {"maximum_version": ssl.TLSVersion.TLSv1_2}
LARGE = os.urandom(3_000_000)


def server_context(**options: Any) -> ssl.SSLContext:
    return certificates.server(good(), **options)


async def connect(port: int, factory: Any = Recorder, context: ssl.SSLContext | None = None,
                  **options: Any) -> tuple[Any, Any]:
    """A client of ours on `port`."""
    options.setdefault("server_hostname", "localhost")
    return await asyncio.get_running_loop().create_connection(
        factory, "127.0.0.1", port, ssl=context or authority().client(), **options)


async def closed(transport: Any, protocol: Recorder) -> BaseException | None:
    transport.close()
    return await protocol.lost


def peer(script: Any, **options: Any) -> Any:
    """talking() to a script that gets a Peer whose handshake is done."""
    return talking(lambda sock: script(
        Peer(sock, server_context(**options), server_side=True).handshake()))


class Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


# ---- ways to a connection


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def test_streams_carry_much_both_ways_at_once():
    server = await asyncio.start_server(copy, "127.0.0.1", 0, ssl=server_context())
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority().client(),
                                                   server_hostname="localhost")

    async def send() -> None:
        for at in range(0, len(LARGE), 70_000):
            writer.write(LARGE[at:at + 70_000])
            await writer.drain()

    _, answer = await asyncio.gather(send(), reader.readexactly(len(LARGE)))
    assert answer == LARGE
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def test_protocols_see_the_callbacks_of_any_connection():
    def script(peer: Peer) -> None:
        assert peer.receive(5) == b"hello"
        peer.send(b"answer")
        peer.end()
        assert peer.receive_all() == b""

    async with peer(script) as port:
        transport, protocol = await connect(port)
        transport.write(b"hello")
        assert await protocol.lost is None
    assert protocol.events == ["made", "data", "eof", "lost"]
    assert protocol.received == b"answer"


async def test_an_accepted_socket_becomes_a_server_end():
    with tcp_pair() as (near, far):
        near.setblocking(False)
        handshake = asyncio.ensure_future(
            elsewhere(lambda: Peer(far, authority().client()).handshake()))
        transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(
            Echo, near, ssl=server_context())
        client = await handshake
        client.send(b"hello")
        assert await elsewhere(client.receive, 5) == b"hello"
        transport.abort()
        await turns()


async def test_unix_sockets_carry_tls(tmp_path):
    loop = asyncio.get_running_loop()
    path = str(tmp_path / "socket")
    server = await loop.create_unix_server(Echo, path, ssl=server_context())
    transport, protocol = await loop.create_unix_connection(
        Recorder, path, ssl=authority().client(), server_hostname="localhost")
    transport.write(b"hello")
    assert await protocol.receive(5) == b"hello"
    assert await closed(transport, protocol) is None
    server.close()
    await server.wait_closed()


def refuses_an_empty_host_name():
    """Newer releases want the check turned off in the context instead."""
    try:
        authority().client().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())     # as asyncio puts it
    except ValueError:
        return True
    return False


async def test_an_empty_host_name_turns_its_check_off_and_a_wrong_one_does_not():
    """As documented for asyncio: the chain is still verified."""
    wrong = certificates.server(authority().issue("other", names="DNS:other.test"))
    async with serving(wrong) as port:
        if refuses_an_empty_host_name():
            with pytest.raises(ValueError, match="check_hostname requires server_hostname"):
                await connect(port, server_hostname="")
        else:
            transport, protocol = await connect(port, server_hostname="")
            assert transport.get_extra_info("ssl_object").server_hostname is None
            assert await closed(transport, protocol) is None
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(port)
        with pytest.raises(ValueError, match="ssl"):
            await asyncio.get_running_loop().create_connection(
                Recorder, "127.0.0.1", port, server_hostname="localhost")


@pytest.mark.parametrize("option", ["ssl_handshake_timeout", "ssl_shutdown_timeout"])
async def test_a_timeout_that_is_none_is_refused_and_no_socket_stays_open(option):
    """Up to CPython 3.14 the connected socket was left to the collector."""
    async with serving(server_context()) as port:
        with pytest.raises(ValueError, match=option):
            await connect(port, **{option: 0})


# ---- what both agree on, and what a connection tells of itself


async def test_a_connection_tells_what_was_agreed_on():
    async with serving(server_context()) as port:
        transport, protocol = await connect(port)
        tell = transport.get_extra_info
        assert isinstance(tell("ssl_object"), ssl.SSLObject)
        assert tell("sslcontext") is tell("ssl_object").context
        assert tell("peercert")["subject"] == ((("commonName", "localhost"),),)
        assert tell("cipher") == tell("ssl_object").cipher()
        assert tell("compression") is None
        assert tell("peername") == ("127.0.0.1", port)
        assert tell("sockname") == tell("socket").getsockname()
        assert tell("socket").family == socket.AF_INET
        assert tell("no such thing", "default") == "default"
        assert await closed(transport, protocol) is None
        # Also when it is gone; the stock transport forgets all at a second close().
        transport.close()
        assert tell("peername") == ("127.0.0.1", port)
        assert isinstance(tell("ssl_object"), ssl.SSLObject)


async def test_transports_and_protocols_are_asyncio_s_own():
    async with serving(server_context()) as port:
        transport, protocol = await connect(port)
        assert isinstance(transport, asyncio.Transport)
        assert isinstance(transport, asyncio.sslproto._SSLProtocolTransport)
        assert isinstance(transport._ssl_protocol, asyncio.sslproto.SSLProtocol)
        transport.note = "of the user's"
        assert transport.get_protocol() is protocol
        assert not transport.can_write_eof()
        with pytest.raises(NotImplementedError):
            transport.write_eof()
        assert await closed(transport, protocol) is None


async def test_the_application_protocol_is_agreed_on():
    server = server_context()
    server.set_alpn_protocols(["h2", "http/1.1"])
    client = authority().client()
    client.set_alpn_protocols(["http/1.1"])
    async with serving(server) as port:
        transport, protocol = await connect(port, context=client)
        assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert await closed(transport, protocol) is None


async def test_the_asked_for_name_chooses_the_certificate():
    server = server_context()
    other = certificates.server(authority().issue("other", names="DNS:other.test"))
    asked = []

    def choose(connection: ssl.SSLObject, name: str, context: ssl.SSLContext) -> None:
        asked.append((name, context))
        if name == "other.test":
            connection.context = other

    server.sni_callback = choose
    async with serving(server) as port:
        for name in ("localhost", "other.test"):
            transport, protocol = await connect(port, server_hostname=name)
            assert await closed(transport, protocol) is None
    assert asked == [("localhost", server), ("other.test", server)]


async def test_a_client_shows_its_certificate():
    server = server_context()
    server.load_verify_locations(authority().own.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    seen = asyncio.get_running_loop().create_future()

    class Look(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            seen.set_result(transport.get_extra_info("peercert")["subject"])

    client = authority().issue("the client").load(authority().client())
    async with serving(server, Look) as port:
        transport, protocol = await connect(port, context=client)
        assert await seen == ((("commonName", "the client"),),)
        assert await closed(transport, protocol) is None


async def test_a_session_may_be_used_again():
    class Client(ssl.SSLContext):
        last: ssl.SSLSession | None = None

        def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
            return super().wrap_bio(*arguments, **options, session=self.last)

    client = Client(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(authority().own.certificate)
    reused = []
    async with serving(server_context(**TLS12)) as port:
        for _ in range(2):
            transport, protocol = await connect(port, context=client)
            reused.append(transport.get_extra_info("ssl_object").session_reused)
            client.last = transport.get_extra_info("ssl_object").session
            assert await closed(transport, protocol) is None
    assert reused == [False, True]


async def test_a_server_may_ask_for_a_certificate_later():
    server = server_context()
    server.load_verify_locations(authority().own.certificate)
    server.verify_mode = ssl.CERT_OPTIONAL
    server.post_handshake_auth = True
    client = authority().issue("the client").load(authority().client())
    client.post_handshake_auth = True

    class Ask(Echo):
        def data_received(self, data: bytes) -> None:
            connection = self.transport.get_extra_info("ssl_object")
            if data == b"log in":
                assert not connection.getpeercert()
                connection.verify_client_post_handshake()
                self.transport.write(b"show it")
            else:
                self.transport.write(repr(connection.getpeercert()["subject"]).encode())

    async with serving(server, Ask) as port:
        transport, protocol = await connect(port, context=client)
        transport.write(b"log in")
        assert await protocol.receive(7) == b"show it"
        transport.write(b"there")
        assert b"the client" in await protocol.receive(40)
        assert await closed(transport, protocol) is None


# ---- writing


async def test_write_sends_what_a_buffer_held_at_the_call():
    def script(peer: Peer) -> None:
        assert peer.receive(30) == b"first     " + b"second    " + b"third     "
        peer.end()

    async with peer(script) as port:
        transport, protocol = await connect(port)
        buffer = bytearray(b"first     ")
        transport.write(buffer)
        buffer[:] = b"second    "
        transport.write(memoryview(buffer))
        buffer[:] = b"third     "
        transport.writelines([buffer])
        buffer[:] = b"never     "
        assert await protocol.lost is None


async def test_every_kind_of_buffer_is_sent_whole():
    wide = array.array("I", [1, 2, 3])
    sparse = memoryview(b"a.b.c.")[::2]

    def script(peer: Peer) -> None:
        expected = b"abc" + 2 * wide.tobytes() + b"onetwothree" + b"abc"
        assert peer.receive(len(expected)) == expected
        peer.end()

    async with peer(script) as port:
        transport, protocol = await connect(port)
        for data in (b"", bytearray(), memoryview(b""), sparse, memoryview(wide)):
            transport.write(data)
        transport.writelines([])
        transport.writelines([b"", memoryview(wide)])
        transport.writelines(each for each in (b"one", bytearray(b"two"), memoryview(b"three")))
        transport.writelines([sparse])
        assert await protocol.lost is None


async def test_what_is_no_buffer_is_refused_and_nothing_of_it_sent():
    async with serving(server_context(), Echo) as port:
        transport, protocol = await connect(port)
        for wrong in ("text", 5, None):
            with pytest.raises(TypeError):
                transport.write(wrong)
            with pytest.raises(TypeError):
                transport.writelines([b"bytes", wrong])
        transport.write(b"right")
        assert await protocol.receive(5) == b"right"
        assert await closed(transport, protocol) is None


async def test_writing_pauses_while_the_peer_does_not_read_and_goes_on_when_it_does():
    go = threading.Event()

    def script(peer: Peer) -> None:
        go.wait(30)
        assert peer.receive(len(LARGE) * 4) == LARGE * 4
        peer.end()

    async with peer(script) as port:
        transport, protocol = await connect(port)
        for _ in range(4):
            transport.write(LARGE)
        assert protocol.events == ["made", "pause"]
        assert transport.get_write_buffer_size() > 0
        go.set()
        assert await protocol.lost is None
    assert protocol.events == ["made", "pause", "resume", "eof", "lost"]


# ---- reading


async def test_reading_pauses_and_the_sender_with_it():
    """A client that paused in connection_made() never sent the last message of its handshake."""
    sent = []

    def script(peer: Peer) -> None:
        peer.sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(100):
                peer.sock.sendall(peer.sealed(bytes(1 << 20)))
                sent.append(1 << 20)

    class Pausing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async with peer(script) as port:
        transport, protocol = await connect(port, Pausing)
        assert not transport.is_reading()
    assert protocol.events == ["made"]
    assert len(sent) < 100
    transport.abort()
    assert await protocol.lost is None


@pytest.mark.parametrize("proper", [True, False], ids=["TLS's end", "the stream's end"])
async def test_what_came_while_reading_was_paused_is_delivered_before_the_end(proper):
    def script(peer: Peer) -> None:
        assert peer.receive(4) == b"send"
        peer.send(LARGE[:100_000])
        if proper:
            peer.end()
        peer.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            peer.receive_all()

    async with peer(script) as port:
        transport, protocol = await connect(port)
        transport.pause_reading()
        transport.write(b"send")
        await asyncio.sleep(0.1)
        assert protocol.events == ["made"]
        transport.resume_reading()
        assert await protocol.lost is None
    assert protocol.received == LARGE[:100_000]
    assert protocol.events == ["made", "data", "eof", "lost"]


class Buffered(asyncio.BufferedProtocol):
    """Takes everything through one buffer of `size` bytes, which it makes anew each time."""

    size = 1000
    kind: Any = bytearray

    def __init__(self) -> None:
        self.buffer = self.kind(bytes(self.size))
        self.received = bytearray()
        self.events: list[str] = []
        self.lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, hint: int) -> Any:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        self.received += bytes(memoryview(self.buffer).cast("B")[:count])
        if isinstance(self.buffer, bytearray):
            self.buffer += b"!"       # nobody may hold it now
            del self.buffer[-1:]

    def eof_received(self) -> None:
        self.events.append("eof")

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.set_result(error)


class Wide(Buffered):
    kind = staticmethod(lambda data: array.array("I", data))  # type: ignore[assignment]


class Shaped:
    """A buffered protocol by its methods only."""

    __init__ = Buffered.__init__
    size, kind = Buffered.size, Buffered.kind
    connection_made = Buffered.connection_made
    get_buffer = Buffered.get_buffer
    buffer_updated = Buffered.buffer_updated
    eof_received = Buffered.eof_received
    connection_lost = Buffered.connection_lost


class View(Buffered):
    kind = staticmethod(lambda data: memoryview(bytearray(data)))  # type: ignore[assignment]


@pytest.mark.parametrize("proper", [True, False], ids=["TLS's end", "the stream's end"])
@pytest.mark.parametrize("factory", [Buffered, View, Wide, Shaped])
async def test_a_buffered_protocol_gets_every_byte(factory, proper):
    """A bytearray got zeros (gh-156275), and an end right behind the data cut off what did not fit
    into one buffer."""
    def script(peer: Peer) -> None:
        everything = peer.sealed(LARGE[:100_000])
        if proper:
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.tls.unwrap()
        peer.sock.sendall(everything + peer.outgoing.read())
        peer.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            peer.receive_all()

    async with peer(script) as port:
        transport, protocol = await connect(port, factory)
        assert await protocol.lost is None
    assert protocol.received == LARGE[:100_000]
    assert protocol.events == ["eof"]


async def test_a_buffered_protocol_may_pause_in_the_middle():
    class Slow(Buffered):
        def buffer_updated(self, count: int) -> None:
            super().buffer_updated(count)
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(0.001, self.transport.resume_reading)

    def script(peer: Peer) -> None:
        peer.sock.sendall(peer.sealed(LARGE[:20_000]))
        peer.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            peer.receive_all()

    async with peer(script) as port:
        transport, protocol = await connect(port, Slow)
        assert await protocol.lost is None
    assert protocol.received == LARGE[:20_000]
    assert protocol.events == ["eof"]


async def test_the_protocol_may_be_changed():
    async with serving(server_context(), Echo) as port:
        transport, first = await connect(port)
        transport.write(b"one")
        assert await first.receive(3) == b"one"
        second = Buffered()
        second.transport = transport
        transport.set_protocol(second)
        transport.write(b"two")
        while second.received != b"two":
            await asyncio.sleep(0)
        transport.close()
        assert await second.lost is None
    assert first.received == b"one"


async def test_what_a_protocol_raises_is_told_and_ends_its_connection():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))

    class Raising(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("on purpose")

    def script(peer: Peer) -> None:
        peer.send(b"hello")
        with contextlib.suppress(EOFError, ConnectionResetError):
            peer.receive_all()

    async with peer(script) as port:
        transport, protocol = await connect(port, Raising)
        error = await protocol.lost
    assert isinstance(error, ValueError)
    assert [what["exception"] for what in told] == [error]
