"""Unix stream sockets: connections, servers, their paths, and what is left when something fails."""
from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import inspect
import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from harness import certificates
from harness.tcp import Recorder, attach, elsewhere, read_all, read_exactly, turns

CLEANS_UP = sys.version_info >= (3, 13)


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def serve(path=None, factory=Echo, **options):
    return await asyncio.get_running_loop().create_unix_server(factory, path, **options)


async def connect(path=None, factory=Recorder, **options):
    return await asyncio.get_running_loop().create_unix_connection(factory, path, **options)


async def end(server, *transports):
    for transport in transports:
        transport.abort()
    await turns()
    server.close()
    await server.wait_closed()


async def cancelled(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await turns()
    assert task.cancelled()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "socket")


# ---- connections

@pytest.mark.parametrize("kind", ["str", "bytes", "pathlike", "abstract", "abstract bytes"])
async def test_a_connection_echoes_under_every_kind_of_name(path, kind):
    name = {"str": path, "bytes": os.fsencode(path), "pathlike": Path(path),
            "abstract": f"\0{path}", "abstract bytes": os.fsencode(f"\0{path}")}[kind]
    server = await serve(name)
    transport, protocol = await connect(name)
    transport.write(b"hello")
    assert await protocol.receive(5) == b"hello"
    assert os.path.exists(path) == ("abstract" not in kind)
    await end(server, transport)


async def test_extra_info_tells_family_and_names_also_afterwards(path):
    """A path longer than 26 bytes was asked for when it was wanted: not after the close."""
    for name in (path, path + "x" * (100 - len(path)), "\0short" + path[-6:]):
        made = []

        class Kept(Recorder):
            def connection_made(self, transport):
                super().connection_made(transport)
                made.append(self)

        server = await serve(name, Kept)
        transport, protocol = await connect(name)
        while not made:
            await turns()
        wanted = os.fsencode(name) if name[0] == "\0" else name
        assert transport.get_extra_info("socket").family == socket.AF_UNIX
        assert transport.get_extra_info("socket").getpeername() == wanted
        far = made[0].transport
        assert far.get_extra_info("socket").family == socket.AF_UNIX
        transport.close()
        await protocol.lost
        await made[0].lost
        await turns()
        assert (transport.get_extra_info("peername"), far.get_extra_info("sockname")) == \
            (wanted, wanted)
        assert (transport.get_extra_info("sockname"), far.get_extra_info("peername")) == ("", "")
        await end(server)


async def test_a_connected_socket_can_be_taken():
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.settimeout(30)
        transport, protocol = await connect(sock=ours)
        theirs.sendall(b"to us")
        assert await protocol.receive(5) == b"to us"
        transport.write(b"to them")
        assert await elsewhere(read_exactly, theirs, 7) == b"to them"
        transport.close()
        assert await elsewhere(read_all, theirs) == b""
        assert await protocol.lost is None


async def test_both_directions_close_on_their_own():
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.settimeout(30)
        transport, protocol = await attach(ours)
        protocol.keep_open = True
        theirs.shutdown(socket.SHUT_WR)
        await protocol.ended
        transport.write(b"still here" * 50_000)
        transport.write_eof()
        assert await elsewhere(read_all, theirs) == b"still here" * 50_000
        transport.close()
        assert await protocol.lost is None


async def test_a_peer_that_closes_with_unread_data_is_a_reset():
    ours, theirs = socket.socketpair()
    transport, protocol = await attach(ours)
    transport.write(b"never read")
    await turns()
    theirs.close()
    assert isinstance(await protocol.lost, ConnectionResetError)


async def test_writing_waits_for_a_slow_reader():
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.settimeout(30)
        transport, protocol = await attach(ours)
        data = os.urandom(1 << 20)
        for _ in range(8):
            transport.write(data)
        assert "pause" in protocol.events
        assert await elsewhere(read_exactly, theirs, 8 << 20) == data * 8
        while "resume" not in protocol.events:
            await asyncio.sleep(0.001)
        transport.close()
        await protocol.lost


async def test_reading_pauses_and_goes_on():
    ours, theirs = socket.socketpair()
    with theirs:
        transport, protocol = await attach(ours)
        transport.pause_reading()
        theirs.sendall(b"first")
        await turns(10)
        assert protocol.received == b""
        transport.resume_reading()
        assert await protocol.receive(5) == b"first"
        transport.close()
        await protocol.lost


async def test_a_descriptor_sent_along_is_dropped_not_leaked():
    """The ledger looks at the descriptors: the kernel closes what nobody asks for."""
    ours, theirs = socket.socketpair()
    with theirs:
        transport, protocol = await attach(ours)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))
        theirs.sendmsg([b"with a descriptor"], [rights])
        assert await protocol.receive(17) == b"with a descriptor"
        transport.close()
        await protocol.lost


async def test_descriptors_are_received_by_who_asks_the_socket_for_them():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        arrived = loop.create_future()
        loop.add_reader(ours, lambda: arrived.done() or arrived.set_result(
            socket.recv_fds(ours, 100, 4)))
        reader, writer = os.pipe()
        socket.send_fds(theirs, [b"pipe"], [reader])
        data, descriptors, _, _ = await arrived
        loop.remove_reader(ours)
        os.write(writer, b"through")
        assert data == b"pipe" and os.read(descriptors[0], 100) == b"through"
        for descriptor in (reader, writer, *descriptors):
            os.close(descriptor)


async def test_streams_carry_lines_both_ways(path):
    async def answer(reader, writer):
        async for line in reader:
            writer.write(line.upper())
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(answer, path)
    reader, writer = await asyncio.open_unix_connection(path)
    for number in range(100):
        writer.write(b"line %d\n" % number)
    writer.write_eof()
    assert await reader.read() == b"".join(b"LINE %d\n" % number for number in range(100))
    writer.close()
    await writer.wait_closed()
    await end(server)


@pytest.mark.time_limit(240)  # asyncio's debug mode keeps a traceback of each call
async def test_a_thousand_connections_at_once(path):
    served = []

    class Served(Echo):
        def __init__(self):
            self.lost = asyncio.get_running_loop().create_future()
            served.append(self)

        def connection_lost(self, exc):
            self.lost.set_result(exc)

    server = await serve(path, factory=Served, backlog=1000)
    made = await asyncio.gather(*[connect(path) for _ in range(1000)])
    for number, (transport, _) in enumerate(made):
        transport.write(b"%06d" % number)
    for number, (_, protocol) in enumerate(made):
        assert await protocol.receive(6) == b"%06d" % number
    for transport, _ in made:
        transport.close()
    # The server's sides too: it takes turns to tell them, and before 3.12 wait_closed() does not.
    await asyncio.gather(*[each.lost for each in [*served, *(protocol for _, protocol in made)]])
    await end(server)


async def test_a_connection_waits_while_the_backlog_is_full(path):
    """sock_connect() turned in circles: a Unix socket that was refused polls as writable."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as stack:
        listener.bind(path)
        listener.listen(1)
        listener.setblocking(False)
        clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(6)]
        for client in clients:
            client.setblocking(False)
        waiting = [asyncio.create_task(loop.sock_connect(client, path)) for client in clients]
        await turns(10)
        assert not all(task.done() for task in waiting)
        await cancelled(waiting.pop())
        for _ in waiting:
            connection, _ = await loop.sock_accept(listener)
            stack.enter_context(connection)
        await asyncio.gather(*waiting)


# ---- TLS

async def test_tls_goes_over_a_path(path):
    server = await serve(path, ssl=certificates.server(certificates.good()))
    transport, protocol = await connect(path, ssl=certificates.authority().client(),
                                        server_hostname="localhost")
    transport.write(b"in secret")
    assert await protocol.receive(9) == b"in secret"
    assert transport.get_extra_info("peername") == path
    transport.close()
    assert await protocol.lost is None
    await end(server)


@pytest.mark.parametrize("how", ["cancelled", "too late"])
async def test_a_handshake_that_does_not_come_leaves_nothing(path, how):
    silent = []

    class Silent(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            silent.append(self)

    server = await serve(path, Silent)
    timeout = 0.1 if how == "too late" else None
    task = asyncio.create_task(connect(path, ssl=certificates.authority().client(),
                                       server_hostname="localhost",
                                       ssl_handshake_timeout=timeout))
    while not silent or not silent[0].received:
        await turns()
    if how == "cancelled":
        await cancelled(task)
    else:
        with pytest.raises(ConnectionAbortedError):
            await task
    assert await silent[0].lost is None
    await end(server)


# ---- what connecting refuses

async def test_connecting_refuses_what_asyncio_refuses(path):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        for options, error, message in (
            ({}, ValueError, "no path and sock"),
            ({"path": path, "sock": tcp}, ValueError, "can not be specified at the same time"),
            ({"sock": tcp}, ValueError, "A UNIX Domain Stream Socket was expected"),
            ({"sock": datagrams}, ValueError, "A UNIX Domain Stream Socket was expected"),
            ({"path": path, "server_hostname": ""}, ValueError, "only meaningful with ssl"),
            ({"path": path, "ssl": True}, ValueError, "pass server_hostname"),
            ({"path": path, "ssl_handshake_timeout": 1}, ValueError, "only meaningful with ssl"),
            ({"path": path, "ssl_shutdown_timeout": 1}, ValueError, "only meaningful with ssl"),
            ({"path": 1.5}, TypeError, "float"),
        ):
            with pytest.raises(error, match=message):
                await connect(**options)


@pytest.mark.parametrize("name", ["nobody", "x" * 200])
async def test_the_error_of_a_refused_connection_names_the_address(tmp_path, name):
    with pytest.raises(OSError) as caught:
        await connect(str(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)


async def test_a_factory_that_raises_leaves_no_socket_open(path):
    """asyncio leaves the connected socket to the collector."""
    def factory():
        raise ValueError("on purpose")

    server = await serve(path)
    with pytest.raises(ValueError, match="on purpose"):
        await connect(path, factory)
    await turns()
    await end(server)


@pytest.mark.parametrize("after", range(4))
async def test_a_cancelled_connection_leaves_nothing(path, after):
    server = await serve(path)
    task = asyncio.create_task(connect(path))
    await turns(after)
    if not task.done():
        await cancelled(task)
    else:
        task.result()[0].close()
        await task.result()[1].lost
    await end(server)


# ---- servers

async def test_a_stale_socket_is_replaced_a_file_is_not(path):
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    server = await serve(path)
    transport, _ = await connect(path)
    await end(server, transport)
    Path(path).unlink(missing_ok=True)
    Path(path).write_text("precious")
    with pytest.raises(OSError, match="is already in use") as caught:
        await serve(path)
    assert caught.value.errno == errno.EADDRINUSE and path in str(caught.value)
    assert Path(path).read_text() == "precious"


async def test_a_name_that_is_taken_is_named(path):
    server = await serve("\0" + path)
    with pytest.raises(OSError, match="is already in use"):
        await serve("\0" + path)
    await end(server)


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 200])
async def test_the_error_of_a_refused_bind_names_the_address(tmp_path, name):
    with pytest.raises(OSError) as caught:
        await serve(str(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)


async def test_serving_refuses_what_asyncio_refuses(path):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        for options, error, message in (
            ({}, ValueError, "path was not specified"),
            ({"path": path, "sock": tcp}, ValueError, "can not be specified at the same time"),
            ({"sock": tcp}, ValueError, "A UNIX Domain Stream Socket was expected"),
            ({"sock": datagrams}, ValueError, "A UNIX Domain Stream Socket was expected"),
            ({"path": path, "ssl": True}, TypeError, "SSLContext"),
            ({"path": path, "ssl_handshake_timeout": 1}, ValueError, "only meaningful with ssl"),
            ({"path": path, "ssl_shutdown_timeout": 1}, ValueError, "only meaningful with ssl"),
        ):
            with pytest.raises(error, match=message):
                await serve(**options)
        assert not os.path.exists(path)


async def test_an_empty_path_asks_the_kernel_for_a_name():
    """asyncio fails with an IndexError and leaves the socket to the collector."""
    server = await serve("")
    name = server.sockets[0].getsockname()
    assert name[:1] == b"\0"
    transport, _ = await connect(name)
    await end(server, transport)


async def test_a_bound_socket_can_be_served(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    server = await serve(sock=sock)
    transport, protocol = await connect(path)
    transport.write(b"hello")
    assert await protocol.receive(5) == b"hello"
    await end(server, transport)
    assert os.path.exists(path) != CLEANS_UP


async def test_a_server_listens_once_it_is_told_to(path):
    server = await serve(path, start_serving=False)
    assert stat.S_ISSOCK(os.stat(path).st_mode) and not server.is_serving()
    with pytest.raises(ConnectionRefusedError):
        await connect(path)
    await server.start_serving()
    transport, _ = await connect(path)
    await end(server, transport)


async def test_the_path_goes_with_its_server(path):
    await end(await serve(path))
    assert os.path.exists(path) != CLEANS_UP
    await end(await serve(path, cleanup_socket=False))
    assert os.path.exists(path)
    await end(await serve(path, cleanup_socket=True))
    assert not os.path.exists(path)


async def test_a_path_that_somebody_else_has_taken_stays(path):
    first = await serve(path, cleanup_socket=True)
    second = await serve(path, cleanup_socket=True)
    await end(first)
    transport, _ = await connect(path)
    await end(second, transport)
    assert not os.path.exists(path)
    third = await serve(path, cleanup_socket=True)
    os.unlink(path)
    Path(path).write_text("precious")
    await end(third)
    assert Path(path).read_text() == "precious"


async def test_a_path_that_is_gone_already_is_fine(path):
    server = await serve(path, cleanup_socket=True)
    os.unlink(path)
    await end(server)


async def test_a_relative_path_is_removed_from_where_it_was_made(tmp_path, monkeypatch):
    """asyncio looks for it in whatever folder the process is in by then."""
    monkeypatch.chdir(tmp_path)
    server = await serve("socket", cleanup_socket=True)
    monkeypatch.chdir("/")
    await end(server)
    assert not (tmp_path / "socket").exists()


async def test_a_path_that_cannot_be_removed_is_told(path, caplog, monkeypatch):
    def refuse(what):
        raise PermissionError(errno.EPERM, "on purpose", what)

    server = await serve(path, cleanup_socket=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        await end(server)
    assert "Unable to clean up listening UNIX socket" in caplog.text and path in caplog.text
    caplog.clear()  # a record keeps the exception, and that its frames


async def test_a_cancelled_start_leaves_no_server(path):
    """asyncio goes on listening: nobody has the server to close it."""
    task = asyncio.create_task(serve(path, cleanup_socket=True))
    await asyncio.sleep(0)
    assert os.path.exists(path)
    await cancelled(task)
    assert not os.path.exists(path)


async def test_a_server_that_cannot_listen_leaves_nothing(path, monkeypatch):
    def refuse(*_, **options):
        raise OSError(errno.ENOBUFS, "on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "_start_serving", refuse, raising=False)
        with pytest.raises(OSError, match="on purpose"):
            await serve(path, cleanup_socket=True)
    assert not os.path.exists(path)


def test_keywords_are_the_running_interpreters(loop):
    stock = asyncio.SelectorEventLoop
    for name in ("create_unix_connection", "create_unix_server"):
        ours = inspect.signature(getattr(type(loop), name))
        assert ours == inspect.signature(getattr(stock, name))
        assert inspect.signature(getattr(loop, name)).parameters.keys() == \
            ours.parameters.keys() - {"self"}
