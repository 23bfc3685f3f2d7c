"""A connection that changes its owner: from a transport to a socket and back, to the loop of
another thread."""
from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from typing import Any

import pytest

import ringloop
from harness import certificates
from harness.tcp import Recorder, attach, elsewhere, read_exactly, reset, tcp_pair, turns


def owners(sock: Any) -> tuple[Any, ...]:
    return ringloop.fdinfo(sock).owners


# ---- detach

async def test_the_socket_is_the_callers_alone():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        before = asyncio.get_running_loop()._counters()["in_flight"]
        sock, received = await ringloop.detach(transport)
        assert sock is near and received == b""
        assert asyncio.get_running_loop()._counters()["in_flight"] < before
        assert owners(sock) == () and ringloop.fdinfo(sock).epolls == ()
        assert transport.is_closing()
        transport.write(b"to nobody")
        assert await protocol.lost is None
        assert protocol.events == ["made", "lost"]
        far.sendall(b"x")
        assert await asyncio.get_running_loop().sock_recv(sock, 10) == b"x"
        assert sock.getpeername() == far.getsockname()


async def test_an_accepted_connection_leaves_its_server():
    class Handing(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            made.set_result(transport)

    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()
    server = await loop.create_server(Handing, "127.0.0.1", 0)
    client = await elsewhere(socket.create_connection, server.sockets[0].getsockname())
    sock, _ = await ringloop.detach(await made)
    server.close()
    await server.wait_closed()
    with sock, client:
        client.sendall(b"x")
        assert await loop.sock_recv(sock, 10) == b"x"


async def test_what_was_written_leaves_first():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(bytes(8 << 20))
        leaving = asyncio.ensure_future(ringloop.detach(transport))
        await turns()
        assert not leaving.done() and owners(near)[0].state == "paused"
        with pytest.raises(RuntimeError):
            transport.write(b"too late")
        assert await elsewhere(read_exactly, far, 8 << 20) == bytes(8 << 20)
        sock, _ = await leaving
        sock.send(b"next")
        assert await elsewhere(read_exactly, far, 4) == b"next"


async def test_what_came_while_reading_was_paused_is_given():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        far.sendall(b"a" * 1000)
        while not protocol.received:                # paused in the turn of the next bytes
            await turns(1)
        far.sendall(b"b" * 1000)
        transport.pause_reading()
        await turns()
        sock, received = await ringloop.detach(transport)
        rest = 1000 - len(received)
        there = b"" if rest == 0 else await asyncio.get_running_loop().sock_recv(sock, rest)
        assert bytes(protocol.received) + received + there == b"a" * 1000 + b"b" * 1000


async def test_what_lies_in_a_stream_reader_is_given():
    with tcp_pair() as (near, far):
        near.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=near)
        far.sendall(b"line\nrest of it")
        assert await reader.readline() == b"line\n"
        waiting = asyncio.ensure_future(reader.readexactly(100))
        await turns()
        sock, received = await ringloop.detach(writer)
        assert (sock, received) == (near, b"rest of it")
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await waiting                           # nobody waits for ever
        assert caught.value.partial == b""
        reader, writer = await _streams(sock, received)
        assert await reader.readexactly(10) == b"rest of it"
        writer.close()
        await writer.wait_closed()


async def _streams(sock: socket.socket, received: bytes) -> Any:
    reader = asyncio.StreamReader()
    transport, protocol = await ringloop.attach(
        sock, lambda: asyncio.StreamReaderProtocol(reader), received)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


async def test_an_end_of_stream_is_seen_by_who_comes_next():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.pause_reading()
        far.shutdown(socket.SHUT_WR)
        await turns()
        sock, received = await ringloop.detach(transport)
        assert received == b"" and await asyncio.get_running_loop().sock_recv(sock, 10) == b""


@pytest.mark.parametrize("size, count", [(100, 300), (100_000, 40)], ids=["receive", "poll"])
async def test_no_byte_is_lost_or_doubled_while_the_owner_changes(size, count):
    """Transport, sock_recv(), transport …, while the peer goes on sending."""
    total = count * size
    sent = b"".join(number.to_bytes(4, "big") for number in range(total // 4))
    got = bytearray()
    loop = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        sending = loop.run_in_executor(None, far.sendall, sent)
        transport, protocol = await attach(near)
        while len(got) < total:
            await asyncio.sleep(0)
            sock, received = await ringloop.detach(transport)
            got += protocol.received
            if len(got) + len(received) < total:
                received += await loop.sock_recv(sock, size)
            transport, protocol = await ringloop.attach(sock, Recorder, received)
            await protocol.receive(len(received))
            if len(got) + len(protocol.received) >= total:
                got += protocol.received
        await sending
        assert got == sent
        transport.abort()
        await protocol.lost


async def test_a_cancelled_one_leaves_the_transport_as_it_was():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(bytes(8 << 20))
        leaving = asyncio.ensure_future(ringloop.detach(transport))
        await turns()
        far.sendall(b"meanwhile")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await protocol.receive(9) == b"meanwhile"
        transport.write(b"end")
        assert await elsewhere(read_exactly, far, (8 << 20) + 3) == bytes(8 << 20) + b"end"
        transport.abort()
        await protocol.lost


async def test_a_connection_that_is_lost_meanwhile_says_so():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(bytes(8 << 20))
        leaving = asyncio.ensure_future(ringloop.detach(transport))
        await turns()
        reset(far)
        with pytest.raises(ConnectionError):
            await leaving
        assert isinstance(await protocol.lost, ConnectionError)
        near.close()


async def test_a_reset_is_raised_by_whoever_meets_it():
    """The ring has read it when reading stops; epoll leaves it in the socket."""
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        await turns()
        reset(far)
        with pytest.raises(ConnectionResetError):
            sock, _ = await ringloop.detach(transport)
            await asyncio.get_running_loop().sock_recv(sock, 1)
        await protocol.lost


async def test_what_cannot_be_detached_says_why(run):
    loop = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        other = run.new_loop()

        async def elsewhere_awaited() -> None:
            with pytest.raises(RuntimeError, match="the transport's own loop"):
                await ringloop.detach(transport)

        await loop.run_in_executor(None, other.run_until_complete, elsewhere_awaited())
        other.close()
        transport.write(bytes(8 << 20))
        first = asyncio.ensure_future(ringloop.detach(transport))
        await turns()
        with pytest.raises(RuntimeError, match="another detach"):
            await ringloop.detach(transport)
        first.cancel()
        await asyncio.wait({first})
        transport.close()
        with pytest.raises(RuntimeError, match="it is closed, or closing"):
            await ringloop.detach(transport)
        transport.abort()
        await protocol.lost
        with pytest.raises(RuntimeError, match="it is closed, or closing"):
            await ringloop.detach(transport)
    datagrams, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
    with pytest.raises(TypeError, match="takes a stream transport"):
        await ringloop.detach(datagrams)
    datagrams.abort()
    await turns()


async def test_a_file_that_is_on_its_way_keeps_the_transport(tmp_path):
    (tmp_path / "file").write_bytes(bytes(8 << 20))
    with tcp_pair() as (near, far), open(tmp_path / "file", "rb") as file:
        transport, protocol = await attach(near)
        loop = asyncio.get_running_loop()
        sending = asyncio.ensure_future(loop.sendfile(transport, file))
        await turns()
        with pytest.raises(RuntimeError, match="a sendfile"):
            await ringloop.detach(transport)
        await elsewhere(read_exactly, far, 8 << 20)
        assert await sending == 8 << 20
        sock, _ = await ringloop.detach(transport)
        assert owners(sock) == ()


async def test_tls_cannot_be_detached():
    loop = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        wrapped = elsewhere(certificates.server(certificates.good()).wrap_socket, far, True)
        near.setblocking(False)
        insecure = ssl.create_default_context()
        insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
        (transport, protocol), server_side = await asyncio.gather(
            loop.create_connection(Recorder, sock=near, server_hostname="localhost",
                                   ssl=insecure), wrapped)
        with pytest.raises(TypeError, match="TLS"):
            await ringloop.detach(transport)
        transport.abort()
        await protocol.lost
        server_side.close()


async def test_inside_a_callback_of_the_connection_it_comes_later():
    class Eager(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            self.detached = ringloop.detach(transport)
            self.suspended = self.detached.send(None)        # as an eager task begins

    class Pieces(asyncio.BufferedProtocol):
        def connection_made(self, transport):
            self.transport, self.answers = transport, []
            self.lost = asyncio.get_running_loop().create_future()

        def get_buffer(self, hint):
            return bytearray(1)

        def buffer_updated(self, count):
            self.answers.append(self.transport._detach())

        def connection_lost(self, exc):
            self.lost.set_result(exc)

    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Eager)
        with pytest.raises(StopIteration) as ended:
            protocol.detached.send(None)
        assert ended.value.value == (near, b"")
        transport, protocol = await ringloop.attach(near, Pieces)
        await turns()
        far.sendall(b"123")
        while len(protocol.answers) < 3:
            await turns(1)
        assert protocol.answers[:2] == [None, None]
        transport.abort()
        await protocol.lost


# ---- attach

async def test_connection_made_has_run_and_what_was_received_comes_first():
    with tcp_pair() as (near, far):                 # a blocking socket
        transport, protocol = await ringloop.attach(near, Recorder, b"first ")
        assert protocol.events == ["made"] and protocol.transport is transport
        assert near.gettimeout() == 0 and owners(near)[0].kind == "transport"
        far.sendall(b"second")
        assert await protocol.receive(12) == b"first second"
        transport.abort()
        await protocol.lost
        assert near.fileno() == -1


async def test_an_owned_descriptor_becomes_the_transports():
    with tcp_pair() as (near, far):
        owned = ringloop.OwnedFd(near.detach())
        transport, protocol = await ringloop.attach(owned, Recorder)
        assert owned.closed
        far.sendall(b"x")
        assert await protocol.receive(1) == b"x"
        transport.abort()
        await protocol.lost


@pytest.mark.parametrize("kind", ["socket", "owned"])
async def test_a_failed_attach_leaves_the_socket_unless_the_connection_was_made(kind):
    class Failing(asyncio.Protocol):
        def connection_made(self, transport):
            raise ValueError("made")

        def connection_lost(self, exc):
            lost.set_result(exc)

    def failing() -> Any:
        raise ValueError("factory")

    lost = asyncio.get_running_loop().create_future()
    with tcp_pair() as (near, far):
        given: Any = near if kind == "socket" else ringloop.OwnedFd(near.detach())
        number = given.fileno()
        with pytest.raises(ValueError, match="factory"):
            await ringloop.attach(given, failing)
        assert given.fileno() == number and owners(number)[1:] == ()
        with pytest.raises(ValueError, match="made"):
            await ringloop.attach(given, Failing)
        assert str(await lost) == "made"
        assert far.recv(1) == b""


async def test_a_descriptor_that_somebody_has_is_refused():
    loop = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        near.setblocking(False)
        loop.add_reader(near, print)
        with pytest.raises(ringloop.FdConflictError, match=r"used by reader <.*attach\(\)"):
            await ringloop.attach(near, Recorder)
        loop.remove_reader(near)
        receiving = asyncio.ensure_future(loop.sock_recv(near, 10))
        await turns()
        with pytest.raises(ringloop.FdConflictError, match="used by socket call") as caught:
            await ringloop.attach(near, Recorder)
        assert (caught.value.fd, caught.value.wanted_by) == (near.fileno(), "attach()")
        assert caught.value.held_by.startswith("socket call <socket.socket")
        far.sendall(b"x")
        assert await receiving == b"x"
        transport, protocol = await ringloop.attach(near, Recorder)
        with pytest.raises(ringloop.FdConflictError, match="used by transport"):
            await ringloop.attach(near, Recorder)
        transport.abort()
        await protocol.lost


async def test_what_cannot_be_attached_says_why():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        with pytest.raises(ValueError, match="a stream socket"):
            await ringloop.attach(datagrams, Recorder)
    with pytest.raises(ValueError, match="closed"):
        await ringloop.attach(datagrams, Recorder)
    with pytest.raises(TypeError, match="a socket or an OwnedFd"):
        await ringloop.attach(0, Recorder)
    with tcp_pair() as (near, far):
        with ssl.create_default_context().wrap_socket(
                near, do_handshake_on_connect=False, server_hostname="x") as wrapped:
            with pytest.raises(TypeError, match="SSLSocket"):
                await ringloop.attach(wrapped, Recorder)


def test_a_foreign_loop_is_told_what_it_has_itself():
    async def main() -> None:
        with tcp_pair() as (near, far):
            with pytest.raises(RuntimeError, match="connect_accepted_socket"):
                await ringloop.attach(near, Recorder)

    asyncio.run(main())


# ---- between the loops of two threads

def test_a_connection_goes_round_the_loops_of_two_threads(run):
    """One owner at any time: each loop answers one message and hands the connection on."""
    class Answering(Recorder):
        def data_received(self, data):
            super().data_received(data)
            self.transport.write(data.upper())

    async def answer_one(sock: socket.socket, received: bytes) -> tuple[socket.socket, bytes]:
        transport, protocol = await ringloop.attach(sock, Answering, received)
        await protocol.receive(1)
        (owner,) = owners(sock)
        assert owner.loop is asyncio.get_running_loop()
        return await ringloop.detach(transport)

    async def main() -> None:
        here = asyncio.get_running_loop()
        other = run.new_loop()
        thread = threading.Thread(target=other.run_forever)
        thread.start()
        with tcp_pair() as (near, far):
            sock, received = near, b""
            for round_number in range(20):
                message = bytes([97 + round_number])
                far.sendall(message)
                if round_number % 2 == 0:
                    moved = asyncio.run_coroutine_threadsafe(answer_one(sock, received), other)
                    sock, received = await asyncio.wrap_future(moved)
                else:
                    sock, received = await answer_one(sock, received)
                assert await elsewhere(far.recv, 10) == message.upper()
                assert owners(sock) == () and ringloop.fdinfo(sock).epolls == ()
        here.call_soon(other.call_soon_threadsafe, other.stop)
        await here.run_in_executor(None, thread.join)
        other.close()

    run(main())
