"""Life of a TCP transport: its callbacks in order, close, abort, and being dropped."""
from __future__ import annotations

import asyncio
import contextvars
import gc
import socket
import threading
import weakref
from contextlib import nullcontext

import pytest

from harness.tcp import Recorder, attach, elsewhere, read_all, read_exactly, reset, tcp_pair, turns


async def test_a_transport_is_an_asyncio_transport():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert isinstance(transport, asyncio.Transport)
        assert isinstance(transport, asyncio.transports._FlowControlMixin)
        assert protocol.transport is transport and transport.get_protocol() is protocol
        assert "SocketTransport" in repr(transport) and f"fd={near.fileno()}" in repr(transport)
        assert "read=polling" in repr(transport) or "read=idle" in repr(transport)
        transport.close()
        assert "closing" in repr(transport)
        await protocol.lost
        await turns()
        assert "closed" in repr(transport)


async def test_a_transport_takes_weak_references_and_attributes():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.note = "mine"
        assert transport.note == "mine" and transport.__dict__ == {"note": "mine"}
        seen = weakref.ref(transport)
        transport.abort()
        await protocol.lost
        await turns()
        del transport, protocol
        gc.collect()
        assert seen() is None


async def test_the_loop_of_a_transport_cannot_be_replaced():
    """A write behind that used to end the process by a segmentation fault."""
    loop = asyncio.get_running_loop()
    endpoint, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        for each in (transport, endpoint):
            assert each._loop is loop
            with pytest.raises(AttributeError):
                each._loop = 5
            with pytest.raises(AttributeError):
                del each._loop
        transport.write(b"x")
        endpoint.sendto(b"x", endpoint.get_extra_info("sockname"))
        await turns()
        assert far.recv(1) == b"x"
        endpoint.close()
        transport.abort()
        await protocol.lost
        await turns()
        assert transport._loop is None


async def test_extra_info_tells_socket_and_addresses_also_afterwards():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert transport.get_extra_info("peername") == far.getsockname()
        assert transport.get_extra_info("sockname") == far.getpeername()
        assert transport.get_extra_info("socket").fileno() == near.fileno()
        assert transport.get_extra_info("socket").family == socket.AF_INET
        assert transport.get_extra_info("nothing") is None
        assert transport.get_extra_info("nothing", 7) == 7
        assert transport.get_extra_info("nothing", default=8) == 8
        peer = far.getsockname()
        transport.abort()
        await protocol.lost
        await turns()
        assert transport.get_extra_info("peername") == peer
        assert near.fileno() == -1


@pytest.mark.parametrize("end", [reset, socket.socket.close])
async def test_addresses_are_known_after_the_end_though_nobody_asked_before(end):
    told: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    class Asking(Recorder):
        def connection_lost(self, exc):
            told.set_result(self.transport.get_extra_info("peername"))
            super().connection_lost(exc)

    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Asking)
        peer, local = far.getsockname(), far.getpeername()
        end(far)
        await protocol.lost
        await turns()
        assert await told == peer
        assert transport.get_extra_info("peername") == peer
        assert transport.get_extra_info("sockname") == local


async def test_accepted_connections_make_a_python_socket_on_demand():
    server = await asyncio.get_running_loop().create_server(Recorder, "127.0.0.1", 0)
    made: asyncio.Future[Recorder] = asyncio.get_running_loop().create_future()

    class Told(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            made.set_result(self)

    other = await asyncio.get_running_loop().create_server(Told, "127.0.0.1", 0)
    with socket.create_connection(other.sockets[0].getsockname()) as far:
        protocol = await made
        transport = protocol.transport
        assert transport.get_extra_info("peername") == far.getsockname()
        wrapped = transport.get_extra_info("socket")
        assert wrapped.getpeername() == far.getsockname()
        assert wrapped.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert transport._sock.gettimeout() == 0
        transport.close()
        assert await elsewhere(read_all, far) == b""
        await protocol.lost
        await turns()
        assert wrapped.fileno() == -1
    for s in (server, other):
        s.close()
        await s.wait_closed()


async def test_callbacks_come_in_asyncios_order():
    with tcp_pair() as (near, far):
        far.sendall(b"early")
        loop = asyncio.get_running_loop()
        near.setblocking(False)
        order = []

        class Ordered(Recorder):
            def connection_made(self, transport):
                super().connection_made(transport)
                order.append("made")
                loop.call_soon(order.append, "after made")

            def data_received(self, data):
                super().data_received(data)
                order.append("data")

        transport, protocol = await loop.create_connection(Ordered, sock=near)
        order.append("connected")
        await protocol.receive(5)
        far.close()
        await protocol.lost
        assert order.index("made") == 0
        assert order.index("data") > order.index("after made")
        assert "connected" in order and order.count("data") == 1
        assert protocol.events == ["made", "data", "eof", "lost"]


async def test_closing_in_connection_made_ends_without_data():
    with tcp_pair() as (near, far):
        far.sendall(b"never seen")

        class Closing(Recorder):
            def connection_made(self, transport):
                super().connection_made(transport)
                transport.close()

        transport, protocol = await attach(near, Closing)
        assert await protocol.lost is None
        assert protocol.events == ["made", "lost"]
        await turns()
        assert near.fileno() == -1


async def test_close_is_seen_by_the_peer_and_reported_once_without_error():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.close()
        transport.close()
        transport.abort()
        assert transport.is_closing() and not transport.is_reading()
        assert await elsewhere(read_all, far) == b""
        assert await protocol.lost is None
        await turns()
        assert protocol.events == ["made", "lost"]
        assert transport.get_protocol() is None
        transport.close()
        transport.abort()


async def test_abort_sends_what_this_turn_wrote():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(b"last words")
        transport.abort()
        assert await protocol.lost is None
        assert await elsewhere(read_all, far) == b"last words"


async def test_abort_drops_what_the_kernel_will_not_take():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(bytes(64 << 20))
        await turns()
        assert transport.get_write_buffer_size() > 0
        transport.abort()
        assert transport.get_write_buffer_size() == 0 or transport._conn_lost
        assert await protocol.lost is None
        await turns()
        assert near.fileno() == -1


async def test_close_waits_for_queued_data():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        payload = bytes(range(256)) * 40000
        transport.write(payload)
        transport.close()
        assert not protocol.lost.done()
        assert await elsewhere(read_all, far) == payload
        assert await protocol.lost is None


async def test_a_peers_reset_is_reported_with_its_error():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        reset(far)
        assert isinstance(await protocol.lost, ConnectionResetError)
        assert protocol.events == ["made", "lost"]


async def test_data_ahead_of_a_reset_arrives():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        far.sendall(b"first")
        await protocol.receive(5)
        reset(far)
        assert isinstance(await protocol.lost, ConnectionResetError)


@pytest.mark.parametrize("where", ["data_received", "eof_received"])
async def test_an_exception_in_a_callback_is_told_and_ends_the_connection(where):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with tcp_pair() as (near, far):
        class Failing(Recorder):
            pass

        def fail(self, *arguments):
            raise ValueError("on purpose")
        setattr(Failing, where, fail)
        transport, protocol = await attach(near, Failing)
        far.sendall(b"x")
        if where == "eof_received":
            far.shutdown(socket.SHUT_WR)
        exception = await protocol.lost
        assert isinstance(exception, ValueError)
        assert len(told) == 1 and told[0]["exception"] is exception
        assert told[0]["message"] == f"Fatal error: protocol.{where}() call failed."
        assert told[0]["transport"] is transport and told[0]["protocol"] is protocol
        told.clear()


async def test_an_exception_in_connection_lost_still_closes_the_descriptor():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with tcp_pair() as (near, far):
        class Failing(Recorder):
            def connection_lost(self, exc):
                super().connection_lost(exc)
                raise ValueError("on purpose")

        transport, protocol = await attach(near, Failing)
        transport.close()
        await protocol.lost
        await turns()
        assert near.fileno() == -1
        assert isinstance(told[0]["exception"], ValueError)
        told.clear()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_system_exit_in_data_received_ends_the_run(loop, kind):
    with tcp_pair() as (near, far):
        class Exiting(asyncio.Protocol):
            def data_received(self, data):
                raise kind("on purpose")

        near.setblocking(False)
        transport, _ = loop.run_until_complete(loop.create_connection(Exiting, sock=near))
        far.sendall(b"x")
        with pytest.raises(kind):
            loop.run_forever()
        assert not transport.is_closing()
        transport.abort()
        loop.run_until_complete(turns())


def test_a_transport_left_open_warns_when_its_loop_is_closed(loop):
    with tcp_pair() as (near, far):
        near.setblocking(False)
        transport, protocol = loop.run_until_complete(
            loop.create_connection(asyncio.Protocol, sock=near))
        loop.close()
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            del transport, protocol
            gc.collect()
        assert near.fileno() == -1


def test_writes_before_the_loop_is_closed_leave(loop):
    with tcp_pair() as (near, far):
        near.setblocking(False)
        transport, protocol = loop.run_until_complete(
            loop.create_connection(asyncio.Protocol, sock=near))
        transport.write(b"written while the loop stood still")
        loop.close()
        assert far.recv(100) == b"written while the loop stood still"
        with pytest.raises(RuntimeError, match="closed"):
            transport.close()
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            del transport, protocol
            gc.collect()


def test_writes_of_two_turns_leave_though_an_exception_ended_the_run(loop):
    """The second waited behind the first one's send, and went with the loop."""
    with tcp_pair() as (near, far):
        near.setblocking(False)
        transport, _ = loop.run_until_complete(
            loop.create_connection(asyncio.Protocol, sock=near))

        def begin():
            transport.write(b"hello, ")
            loop.call_soon(leave)

        def leave():
            transport.write(b"good-bye")
            raise SystemExit

        loop.call_soon(begin)
        with pytest.raises(SystemExit):
            loop.run_forever()
        loop.close()
        assert read_exactly(far, 15) == b"hello, good-bye"
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            del transport, begin, leave
            gc.collect()


@pytest.mark.parametrize("leave_by", ["exception", "stop"])
def test_writes_of_two_turns_have_left_when_a_run_ends(loop, leave_by):
    """A program that exits then need not close its loop: the second piece used to stay behind the
    first one's send, and went with the process."""
    with tcp_pair() as (near, far):
        near.setblocking(False)
        transport, protocol = loop.run_until_complete(
            loop.create_connection(Recorder, sock=near))

        def begin():
            transport.write(b"hello, ")
            loop.call_soon(leave)

        def leave():
            transport.write(b"good-bye")
            if leave_by == "exception":
                raise KeyboardInterrupt
            loop.stop()

        loop.call_soon(begin)
        with pytest.raises(KeyboardInterrupt) if leave_by == "exception" else nullcontext():
            loop.run_forever()
        assert read_exactly(far, 15) == b"hello, good-bye"
        far.sendall(b"more")
        loop.run_until_complete(protocol.receive(4))     # and the loop goes on
        transport.write(b"!")
        transport.close()
        loop.run_until_complete(protocol.lost)
        assert read_all(far) == b"!"


def test_a_run_that_ends_beside_a_peer_who_does_not_read_loses_nothing(loop):
    """What was in flight, and what waited behind it, was dropped in silence: the send that was
    collected at the run's end counted as cancelled for good."""
    pieces = [bytes([number]) * 3_000_000 for number in range(4)]
    with tcp_pair() as (near, far):
        near.setblocking(False)
        transport, protocol = loop.run_until_complete(
            loop.create_connection(Recorder, sock=near))
        for piece in pieces:        # each run ends beside a send that the peer blocks
            transport.write(piece)
            loop.run_until_complete(asyncio.sleep(0))
            transport.write(b"+")
            loop.run_until_complete(turns())
        assert transport.get_write_buffer_size() > 0
        transport.write(b"!")
        transport.close()
        received = []
        reader = threading.Thread(target=lambda: received.append(read_all(far)))
        reader.start()
        loop.run_until_complete(protocol.lost)
        reader.join()
        assert received == [b"".join(piece + b"+" for piece in pieces) + b"!"]


def test_a_protocol_is_resumed_in_a_run_and_never_behind_one(loop):
    """What waited behind a send leaves when the run ends: resume_writing() waits for the next."""
    with tcp_pair() as (near, far):
        near.setblocking(False)
        seen = []

        class Paused(Recorder):
            def pause_writing(self):
                seen.append(("pause", loop.is_running()))

            def resume_writing(self):
                seen.append(("resume", loop.is_running()))

        transport, protocol = loop.run_until_complete(
            loop.create_connection(Paused, sock=near))
        transport.set_write_buffer_limits(high=10, low=5)

        def begin():
            transport.write(b"0123456")
            loop.call_soon(leave)

        def leave():
            transport.write(b"89abcdef")       # behind the first: above the mark
            loop.stop()

        loop.call_soon(begin)
        loop.run_forever()
        assert read_exactly(far, 15) == b"012345689abcdef"
        assert seen == [("pause", True)]
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert seen == [("pause", True), ("resume", True)]
        transport.close()
        loop.run_until_complete(protocol.lost)


async def test_callbacks_run_in_the_connections_context():
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    class Looking(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            seen.append(variable.get())

        def data_received(self, data):
            seen.append(variable.get())
            super().data_received(data)

        def pause_writing(self):
            seen.append(variable.get())

        def connection_lost(self, exc):
            seen.append(variable.get())
            super().connection_lost(exc)

    with tcp_pair() as (near, far):
        variable.set("at connect")
        transport, protocol = await attach(near, Looking)
        variable.set("later")
        transport.write(bytes(64 << 20))
        far.sendall(b"x")
        await protocol.receive(1)
        transport.abort()
        await protocol.lost
        assert seen == ["at connect"] * 4


async def test_a_descriptor_in_use_is_refused():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        with pytest.raises(RuntimeError, match="is used by transport"):
            await attach(near)
        transport.abort()
        await protocol.lost


async def test_a_socket_that_is_closed_is_refused():
    with tcp_pair() as (near, far):
        loop = asyncio.get_running_loop()
        near.close()
        with pytest.raises(ValueError):
            loop._make_socket_transport(near, Recorder())


async def test_a_waiter_that_was_cancelled_does_no_harm():
    with tcp_pair() as (near, far):
        loop = asyncio.get_running_loop()
        near.setblocking(False)
        waiter = loop.create_future()
        protocol = Recorder()
        transport = loop._make_socket_transport(near, protocol, waiter)
        waiter.cancel()
        await turns()
        assert protocol.events == ["made"]
        transport.abort()
        await protocol.lost


async def test_set_protocol_directs_the_next_data():
    with tcp_pair() as (near, far):
        transport, first = await attach(near)
        far.sendall(b"one")
        await first.receive(3)
        second = Recorder()
        second.events.append("made")
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        far.sendall(b"two")
        assert await second.receive(3) == b"two"
        far.close()
        await second.lost
        assert first.received == b"one" and "lost" not in first.events
