"""TLS connections that end: closes are bounded and say how it went, failed handshakes leave
nothing, a server's close reaches every connection. The harness checks descriptors and transports.
"""
from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import sys
import threading
import weakref
from typing import Any

import pytest

import ringloop
from harness import accounts, certificates
from harness.certificates import authority, good
from harness.tcp import Recorder, elsewhere, reset
from harness.tls import Peer, serving, talking

SHORT_S = 0.2
LARGE = os.urandom(1 << 20)
LATER = pytest.mark.skipif(sys.version_info < (3, 13), reason="close_clients() came with 3.13")


def server_context() -> ssl.SSLContext:
    return certificates.server(good())


async def connect(port: int, factory: Any = Recorder, **options: Any) -> tuple[Any, Any]:
    return await asyncio.get_running_loop().create_connection(
        factory, "127.0.0.1", port, ssl=authority().client(), server_hostname="localhost",
        **options)


def peer(script: Any) -> Any:
    """talking() to a script that gets a Peer whose handshake is done."""
    return talking(lambda sock: script(
        Peer(sock, server_context(), server_side=True).handshake()))


# ---- closing an open connection


async def test_close_sends_all_that_was_written_then_the_end_and_waits_for_the_peer_s():
    def script(peer: Peer) -> None:
        assert peer.receive_all() == 8 * LARGE
        peer.end()
        assert peer.sock.recv(100) == b""

    async with peer(script) as port:
        transport, protocol = await connect(port)
        for _ in range(8):
            transport.write(LARGE)
        transport.close()
        assert transport.is_closing()
        transport.write(b"too late")
        assert await protocol.lost is None
    assert protocol.events == ["made", "pause", "resume", "eof", "lost"]


async def test_what_comes_after_close_is_dropped_and_is_no_error():
    """The stock protocol gave up with "application data after close notify"."""
    closed = threading.Event()

    def script(peer: Peer) -> None:
        closed.wait(30)
        peer.send(LARGE[:200_000])
        assert peer.receive_all() == b"bye"
        peer.send(LARGE[:200_000])
        peer.end()
        assert peer.sock.recv(100) == b""

    async with peer(script) as port:
        transport, protocol = await connect(port)
        transport.write(b"bye")
        transport.close()
        closed.set()
        assert await protocol.lost is None
    assert "data" not in protocol.events


async def test_what_waited_while_reading_was_paused_is_no_obstacle_to_a_close():
    """Reading below stayed paused: the peer's end was not seen, a close took its whole timeout."""
    def script(peer: Peer) -> None:
        peer.send(LARGE[:900_000])
        assert peer.receive_all() == b""
        peer.end()

    async with peer(script) as port:
        transport, protocol = await connect(port)
        transport.pause_reading()
        while transport.get_read_buffer_size() < 256 * 1024:
            await asyncio.sleep(0.001)
        transport.close()
        assert await protocol.lost is None
    assert "data" not in protocol.events


async def test_a_peer_that_never_answers_is_left_after_the_timeout():
    over = threading.Event()

    async with peer(lambda peer: over.wait(30)) as port:
        transport, protocol = await connect(port, ssl_shutdown_timeout=SHORT_S)
        transport.close()
        assert isinstance(await protocol.lost, TimeoutError)
        over.set()


async def test_a_peer_that_goes_on_sending_is_cut_off():
    """It used to be read to its end, or for the whole timeout."""
    def script(peer: Peer) -> None:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                peer.send(LARGE)

    async with peer(script) as port:
        transport, protocol = await connect(port)     # the usual timeout: it must not be needed
        await protocol.receive(1)
        transport.close()
        assert await protocol.lost is None


@pytest.mark.parametrize("ends", [False, True], ids=["just stops", "says its end"])
async def test_a_peer_that_has_stopped_reading_is_left_after_the_timeout(ends):
    """If it had sent its end, the timeout was called off and the queue waited for for ever."""
    ready, over = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        ready.wait(30)
        if ends:
            peer.end()
        over.wait(30)

    async with peer(script) as port:
        transport, protocol = await connect(port, ssl_shutdown_timeout=SHORT_S)
        for _ in range(16):
            transport.write(LARGE)
        ready.set()
        if not ends:
            transport.close()
        assert isinstance(await protocol.lost, TimeoutError)
        over.set()


async def test_a_peer_that_only_hangs_up_is_answer_enough():
    def script(peer: Peer) -> None:
        assert peer.receive_all() == b""

    async with peer(script) as port:
        transport, protocol = await connect(port)
        transport.close()
        assert await protocol.lost is None


async def test_a_close_while_the_end_waits_for_a_paused_reader_ends():
    """close() in this state did nothing: the connection stayed for good."""
    def script(peer: Peer) -> None:
        peer.send(b"hello")
        peer.sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            peer.receive_all()

    class Pausing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async with peer(script) as port:
        transport, protocol = await connect(port, Pausing)
        while not transport._ssl_protocol._eof_received:
            await asyncio.sleep(0.001)
        transport.close()
        assert await protocol.lost is None
    assert "data" not in protocol.events


async def test_everything_may_be_called_on_a_closed_transport():
    async with serving(server_context()) as port:
        transport, protocol = await connect(port)
        transport.close()
        assert await protocol.lost is None
        for _ in range(8):
            transport.write(b"nobody")
            transport.writelines([b"there"])
        transport.pause_reading()
        transport.resume_reading()
        transport.close()
        transport.abort()
        assert transport.is_closing()
        assert transport.get_protocol() is None
        assert transport.get_write_buffer_size() == 0
    assert protocol.events.count("lost") == 1


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_protocol_may_end_its_connection_at_once(how):
    class Ending(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.write(b"bye")
            getattr(transport, how)()

    def script(peer: Peer) -> None:
        with contextlib.suppress(EOFError, ConnectionResetError):
            assert peer.receive_all() == b"bye"

    async with peer(script) as port:
        transport, protocol = await connect(port, Ending)
        assert await protocol.lost is None


async def test_a_reset_is_told_as_one():
    async with peer(lambda peer: reset(peer.sock)) as port:
        transport, protocol = await connect(port)
        assert isinstance(await protocol.lost, ConnectionResetError)
    assert protocol.events == ["made", "lost"]


# ---- a server and its connections


async def test_wait_closed_returns_when_every_protocol_has_heard_of_its_end():
    protocols: list[Recorder] = []
    server = await asyncio.get_running_loop().create_server(
        lambda: protocols.append(Recorder()) or protocols[-1], "127.0.0.1", 0,
        ssl=server_context())
    clients = [await connect(server.sockets[0].getsockname()[1]) for _ in range(10)]
    server.close()
    for transport, _ in clients:
        transport.close()
    await server.wait_closed()
    if sys.version_info >= (3, 12, 1):
        assert [each.events[-1] for each in protocols] == ["lost"] * 10
    for _, protocol in clients:
        assert await protocol.lost is None
    await asyncio.gather(*(each.lost for each in protocols))


@LATER
@pytest.mark.parametrize("how, expected", [("close_clients", "proper"), ("abort_clients", "cut")])
async def test_a_server_ends_its_clients(how, expected):
    """close_clients() closed the transport below: the end of the stream came without TLS's."""
    protocols: list[Recorder] = []

    def factory() -> Recorder:
        protocols.append(Recorder())
        return protocols[-1]

    server = await asyncio.get_running_loop().create_server(
        factory, "127.0.0.1", 0, ssl=server_context())

    def client() -> str:
        with socket.create_connection(server_address, 30) as sock:
            peer = Peer(sock, authority().client()).handshake()
            greeted.set()
            try:
                peer.receive_all()
            except (EOFError, ConnectionResetError):
                return "cut"
            peer.end()
            return "proper"

    greeted = threading.Event()
    server_address = server.sockets[0].getsockname()
    task = asyncio.ensure_future(elsewhere(client))
    await elsewhere(greeted.wait, 30)
    # The client's handshake ends first: the server may still be in its own.
    while not (protocols and protocols[0].events):
        await asyncio.sleep(0.001)
    server.close()
    getattr(server, how)()
    await server.wait_closed()
    assert await task == expected


@LATER
@pytest.mark.parametrize("how", ["close_clients", "abort_clients"])
async def test_a_server_ends_handshakes_that_are_under_way(how):
    # Told in debug mode, and what is logged is kept.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    server = await asyncio.get_running_loop().create_server(
        Recorder, "127.0.0.1", 0, ssl=server_context())
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(server.sockets[0].getsockname()))
                   for _ in range(100)]
        while len(server._clients) < 100:
            await asyncio.sleep(0.001)
        server.close()
        getattr(server, how)()
        await server.wait_closed()
        for client in clients:
            client.settimeout(30)
            assert client.recv(1) == b""


async def test_a_handshake_goes_on_when_its_server_does_not_accept_any_more():
    served: list[Recorder] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: served.append(Recorder()) or served[-1],
                                      "127.0.0.1", 0, ssl=server_context())
    with socket.create_connection(server.sockets[0].getsockname(), 30) as sock:
        while not served:
            await asyncio.sleep(0.001)
        server.close()
        peer = await elsewhere(lambda: Peer(sock, authority().client()).handshake())
        peer.send(b"hello")
        while not served[0].transport:
            await asyncio.sleep(0.001)
        assert await served[0].receive(5) == b"hello"
        await elsewhere(peer.end)
        assert await served[0].lost is None
    await server.wait_closed()


def test_the_end_of_run_ends_handshakes_and_connections_that_are_left(run):
    async def main() -> list[socket.socket]:
        server = await asyncio.get_running_loop().create_server(
            Recorder, "127.0.0.1", 0, ssl=server_context())
        clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(10)]
        while len(asyncio.all_tasks()) < 11:
            await asyncio.sleep(0.001)
        server.close()
        return clients

    for client in run(main()):
        with client:
            client.settimeout(30)
            assert client.recv(1) == b""


def test_a_loop_may_be_closed_right_after_the_last_connection(run):
    loop = run.new_loop()

    async def main() -> None:
        server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context())
        transport, protocol = await connect(server.sockets[0].getsockname()[1])
        server.close()
        transport.close()
        await asyncio.gather(protocol.lost, server.wait_closed())

    loop.run_until_complete(main())
    if sys.version_info < (3, 12, 1):       # wait_closed() does not wait there
        loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()


# ---- handshakes that fail


class Failing:
    """create_connection() to a server that will not do, again and again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.context = ssl.create_default_context()

    async def fail(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, "127.0.0.1", self.port, ssl=self.context,
                server_hostname="localhost")
        except ssl.SSLCertVerificationError:
            return
        raise AssertionError("it did not fail")


@pytest.mark.time_limit(240)
async def test_500_failed_handshakes_leave_no_memory_and_nothing_to_the_collector():
    """Each left a cycle of its exception, its traceback and its waiter (gh-109534)."""
    async with serving(server_context(), asyncio.Protocol) as port:
        failing = Failing(port)
        counts = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                for _ in range(100):
                    await failing.fail()
                await asyncio.sleep(0.05)
                counts.append(accounts.allocated_blocks(collect=False))
        finally:
            gc.enable()
    accounts.assert_flat(counts, 100)


async def test_a_connection_is_gone_with_its_last_reference():
    class Holding(Recorder):
        """Holds its transport, as most protocols do."""

    gc.collect()
    gc.disable()
    try:
        async with serving(server_context()) as port:
            transport, protocol = await connect(port, Holding)
            transport.close()
            assert await protocol.lost is None
            left = weakref.ref(transport._ssl_protocol)
            transport.close()
            del transport
            protocol.transport = None
            del protocol
            await asyncio.sleep(0)
            assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_client_leaves_a_server_that_says_nothing(how):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if how == "cancelled":
            task = asyncio.ensure_future(connect(port))
            connection, _ = await elsewhere(listener.accept)
            assert await elsewhere(connection.recv, 1 << 16)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(ConnectionAbortedError, match="longer than"):
                await connect(port, ssl_handshake_timeout=SHORT_S)
            connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                while await elsewhere(connection.recv, 1 << 16):
                    pass


async def test_a_server_leaves_clients_that_say_nothing():
    async with serving(server_context(), ssl_handshake_timeout=SHORT_S) as port:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
                       for _ in range(20)]
            for client in clients:
                assert await elsewhere(client.recv, 1) == b""


async def test_clients_that_go_in_the_middle_of_a_handshake_do_no_harm():
    async with serving(server_context()) as port:
        for number in range(30):
            sock = socket.create_connection(("127.0.0.1", port), 30)
            peer = Peer(sock, authority().client())
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.tls.do_handshake()
            hello = peer.outgoing.read()
            sock.sendall(hello[:number * len(hello) // 30])
            reset(sock) if number % 2 else sock.close()
        transport, protocol = await connect(port)
        transport.close()
        assert await protocol.lost is None


@pytest.mark.parametrize("debug", [False, True])
async def test_a_failed_handshake_is_reported_by_the_server_in_debug_mode_only(debug):
    told: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_debug(debug)
    loop.set_exception_handler(lambda _, what: told.append(what))
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context())
    with socket.create_connection(server.sockets[0].getsockname(), 30) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            while await elsewhere(client.recv, 1 << 16):
                pass
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.01)
    loop.set_debug(False)
    assert [type(what["exception"]) for what in told] == [ssl.SSLError] * debug
    if debug:
        assert told[0]["message"] == "Error on transport creation for incoming connection"
        assert isinstance(told[0]["protocol"], Recorder)
        told.clear()


@pytest.mark.parametrize("closes", [False, True], ids=["raises", "closes the server"])
async def test_a_factory_may_fail(closes):
    told: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: told.append(what))

    def factory() -> Recorder:
        if closes:
            server.close()
            return Recorder()
        raise ValueError("on purpose")

    server = await loop.create_server(factory, "127.0.0.1", 0, ssl=server_context())
    with socket.create_connection(server.sockets[0].getsockname(), 30) as client:
        assert await elsewhere(client.recv, 1) == b""
    server.close()
    await server.wait_closed()
    assert [str(what["exception"]) for what in told] == ([] if closes else ["on purpose"])


@pytest.mark.parametrize("what", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_task_factory_that_fails_loses_the_connection_alone(run, what):
    """KeyboardInterrupt and SystemExit left a descriptor with two owners: its number was closed
    under the transport."""
    told: list[dict[str, Any]] = []
    loop = run.new_loop()
    loop.set_exception_handler(lambda _, said: told.append(said))

    async def start() -> Any:
        return await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context())

    def refuse(loop: Any, coroutine: Any, **keywords: Any) -> Any:
        coroutine.close()
        raise what("on purpose")

    server = loop.run_until_complete(start())
    loop.set_task_factory(refuse)
    with socket.create_connection(server.sockets[0].getsockname(), 30) as client:
        client.setblocking(False)

        def ended() -> None:
            with contextlib.suppress(BlockingIOError):
                assert client.recv(1) == b""
                return loop.stop()
            loop.call_later(0.01, ended)

        loop.call_soon(ended)
        if what is ValueError:
            loop.run_forever()
            assert [str(said["exception"]) for said in told] == ["on purpose"]
        else:
            with pytest.raises(what, match="on purpose"):
                loop.run_forever()
            loop.run_forever()
    server.close()
    loop.set_task_factory(None)
    loop.run_until_complete(server.wait_closed())
    loop.close()


def test_an_idle_connection_holds_no_buffer_of_its_own(run):
    """Each held 256 KiB."""
    async def main() -> None:
        async with serving(server_context()) as port:
            pairs = [await connect(port) for _ in range(3)]
            buffers = {id(transport._ssl_protocol._ssl_buffer) for transport, _ in pairs}
            assert len(buffers) == 1
            for transport, protocol in pairs:
                transport.close()
                assert await protocol.lost is None

    run(main())
    assert ringloop.EventLoop._tls_buffer is None
