"""Reading: whole streams in order, half close, pausing, BufferedProtocol, switching with size."""
from __future__ import annotations

import asyncio
import contextlib
import random
import socket

import pytest

from harness.tcp import Recorder, attach, elsewhere, read_all, tcp_pair, turns


class Buffered(asyncio.BufferedProtocol):
    """Collects through a buffer of `size` bytes."""

    def __init__(self, size: int = 1000) -> None:
        self.buffer = bytearray(size)
        self.received = bytearray()
        self.transport = None
        self.hints: list[int] = []
        self.lost = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        self.hints.append(sizehint)
        return self.buffer

    def buffer_updated(self, nbytes):
        self.received += self.buffer[:nbytes]

    def eof_received(self):
        self.ended.set_result(None)

    def connection_lost(self, exc):
        self.lost.set_result(exc)


def send_in_pieces(sock: socket.socket, payload: bytes, seed: int) -> None:
    """Pieces of 1 B to 300 KB: all the sizes at which the way of reading changes."""
    generator = random.Random(seed)
    sent = 0
    while sent < len(payload):
        size = generator.choice((1, 100, 1000, 16000, 33000, 70000, 300000))
        sock.sendall(payload[sent:sent + size])
        sent += size
    sock.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("seed", range(4))
async def test_every_byte_arrives_in_order_while_sizes_change(seed):
    payload = random.Random(seed).randbytes(8 << 20)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        sending = asyncio.ensure_future(elsewhere(send_in_pieces, far, payload, seed))
        await protocol.ended
        await sending
        assert bytes(protocol.received) == payload
        await protocol.lost


async def test_large_messages_switch_to_polling_and_small_ones_back():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        count = 0
        while not transport._polling:
            assert count < 100 << 20
            await elsewhere(far.sendall, bytes(1 << 20))
            count += 1 << 20
            await protocol.receive(count)
        for _ in range(20):
            far.sendall(b"small")
            count += 5
            await protocol.receive(count)
        assert not transport._polling
        far.sendall(b"still there")
        await protocol.receive(count + 11)
        assert protocol.received.endswith(b"still there")
        transport.abort()
        await protocol.lost


@pytest.mark.parametrize("count, polls", [(2, False), (32, True)])
async def test_many_messages_of_a_turn_are_read_one_by_one(count, polls):
    """16 KiB each: two a turn may be received by the kernel, half a megabyte leaves the cache."""
    size = 16 << 10
    with contextlib.ExitStack() as stack:
        pairs = [stack.enter_context(tcp_pair()) for _ in range(count)]
        ends = [(*await attach(near), far) for near, far in pairs]
        for done in range(6):
            for _, _, far in ends:
                far.sendall(bytes([done]) * size)
            for _, protocol, _ in ends:
                await protocol.receive((done + 1) * size)
        assert {transport._polling for transport, _, _ in ends} == {polls}
        for transport, protocol, far in ends:
            for _ in range(20):
                far.sendall(b"small")
                await elsewhere(lambda: None)
        for transport, protocol, far in ends:
            await protocol.receive(6 * size + 100)
            assert not transport._polling
            whole = b"".join(bytes([done]) * size for done in range(6)) + b"small" * 20
            assert protocol.received == whole
            transport.abort()
            await protocol.lost


async def test_half_close_keeps_the_write_side():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        protocol.keep_open = True
        far.shutdown(socket.SHUT_WR)
        await protocol.ended
        assert not transport.is_closing()
        transport.write(b"answer")
        transport.close()
        assert await elsewhere(read_all, far) == b"answer"
        await protocol.lost
        assert protocol.events == ["made", "eof", "lost"]


async def test_the_end_of_the_stream_closes_by_default():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        far.shutdown(socket.SHUT_WR)
        assert await protocol.lost is None
        assert protocol.events == ["made", "eof", "lost"]


@pytest.mark.parametrize("factory", [Recorder, Buffered])
async def test_pausing_delivers_nothing_and_loses_nothing(factory):
    payload = random.Random(5).randbytes(3 << 20)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, factory)
        sending = asyncio.ensure_future(elsewhere(send_in_pieces, far, payload, 5))
        for _ in range(50):
            if transport.is_closing():      # the sender was quick
                break
            transport.pause_reading()
            transport.pause_reading()
            assert not transport.is_reading()
            before = len(protocol.received)
            await turns(4)
            assert len(protocol.received) == before
            transport.resume_reading()
            transport.resume_reading()
            assert transport.is_reading()
            await turns(2)
        await protocol.ended
        await sending
        assert bytes(protocol.received) == payload
        await protocol.lost


async def test_pausing_inside_data_received_stops_at_once():
    with tcp_pair() as (near, far):
        class OneByOne(Recorder):
            def data_received(self, data):
                super().data_received(data)
                self.transport.pause_reading()
                asyncio.get_running_loop().call_later(0.001, self.transport.resume_reading)
                self.calls = getattr(self, "calls", 0) + 1

        transport, protocol = await attach(near, OneByOne)
        await elsewhere(far.sendall, bytes(1 << 20))
        await protocol.receive(1 << 20)
        assert protocol.calls > 1
        transport.abort()
        await protocol.lost


async def test_an_end_seen_while_paused_comes_after_resume():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        far.sendall(b"x")
        await protocol.receive(1)
        transport.pause_reading()
        far.sendall(b"tail")
        far.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.01)
        assert protocol.events == ["made", "data"]
        transport.resume_reading()
        assert protocol.events == ["made", "data"]      # never from inside resume_reading()
        await protocol.lost
        assert protocol.received == b"xtail"
        assert protocol.events == ["made", "data", "eof", "lost"]


async def test_pausing_in_connection_made_works():
    with tcp_pair() as (near, far):
        class Paused(Recorder):
            def connection_made(self, transport):
                super().connection_made(transport)
                transport.pause_reading()

        far.sendall(b"held")
        transport, protocol = await attach(near, Paused)
        await asyncio.sleep(0.01)
        assert protocol.received == b""
        transport.resume_reading()
        assert await protocol.receive(4) == b"held"
        transport.abort()
        await protocol.lost


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
async def test_buffered_protocols_get_every_byte(size):
    payload = random.Random(size).randbytes(200_000 if size == 1 else 4 << 20)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, lambda: Buffered(size))
        sending = asyncio.ensure_future(elsewhere(send_in_pieces, far, payload, 1))
        await protocol.ended
        await sending
        assert bytes(protocol.received) == payload
        assert set(protocol.hints) == {-1}
        await protocol.lost


async def test_a_protocol_is_buffered_by_its_shape_too():
    class Shaped(asyncio.BaseProtocol):
        __init__ = Buffered.__init__
        connection_made = Buffered.connection_made
        connection_lost = Buffered.connection_lost
        get_buffer = Buffered.get_buffer
        buffer_updated = Buffered.buffer_updated
        eof_received = Buffered.eof_received

    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Shaped)
        far.sendall(b"shaped")
        far.shutdown(socket.SHUT_WR)
        await protocol.lost
        assert protocol.received == b"shaped"


async def test_the_buffer_of_a_buffered_protocol_is_free_while_idle():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Buffered)
        far.sendall(b"x")
        while not protocol.received:
            await asyncio.sleep(0)
        protocol.buffer.extend(b"resized")      # BufferError if the transport held on to it
        transport.abort()
        await protocol.lost


@pytest.mark.parametrize("answer, message", [
    (b"", "get_buffer"), (bytearray(), "get_buffer"), (None, "get_buffer")])
async def test_a_bad_buffer_ends_the_connection(answer, message):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with tcp_pair() as (near, far):
        class Bad(Buffered):
            def get_buffer(self, sizehint):
                return answer

        transport, protocol = await attach(near, Bad)
        far.sendall(b"x")
        assert isinstance(await protocol.lost, Exception)
        assert told[0]["message"] == "Fatal error: protocol.get_buffer() call failed."
        told.clear()


async def test_buffer_updated_that_raises_ends_the_connection():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with tcp_pair() as (near, far):
        class Bad(Buffered):
            def buffer_updated(self, nbytes):
                raise ValueError("on purpose")

        transport, protocol = await attach(near, Bad)
        far.sendall(b"x")
        assert isinstance(await protocol.lost, ValueError)
        assert told[0]["message"] == "Fatal error: protocol.buffer_updated() call failed."
        told.clear()


async def test_closing_inside_data_received_drops_the_rest():
    with tcp_pair() as (near, far):
        class Closing(Recorder):
            def data_received(self, data):
                super().data_received(data)
                self.transport.close()

        transport, protocol = await attach(near, Closing)
        far.sendall(b"x")
        far.sendall(b"y")
        assert await protocol.lost is None
        assert protocol.events == ["made", "data", "lost"]


async def test_changing_to_a_buffered_protocol_between_two_pieces():
    with tcp_pair() as (near, far):
        class Changing(Recorder):
            def data_received(self, data):
                super().data_received(data)
                self.transport.set_protocol(self.successor)

        transport, protocol = await attach(near, Changing)
        protocol.successor = Buffered(3)
        far.sendall(b"first")
        await protocol.receive(5)
        far.sendall(b"second")
        while len(protocol.successor.received) < 6:
            await asyncio.sleep(0)
        assert protocol.successor.received == b"second"
        transport.abort()
        await protocol.successor.lost


@pytest.mark.parametrize("buffered", [False, True])
async def test_methods_that_the_protocol_assigns_anew_are_called(buffered):
    """As in asyncio: protocols that are state machines do so. They were looked up once."""
    class Machine(Buffered if buffered else Recorder):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def first(self, _: object) -> None:
            self.seen.append("first")
            setattr(self, "buffer_updated" if buffered else "data_received", self.second)

        def second(self, _: object) -> None:
            self.seen.append("second")

        data_received = buffer_updated = first

    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Machine)
        for expected in (["first"], ["first", "second"]):
            far.send(b"x")
            while len(protocol.seen) < len(expected):
                await asyncio.sleep(0.001)
            assert protocol.seen == expected
        Machine.second = Machine.first      # type: ignore[method-assign]
        far.send(b"x")
        while len(protocol.seen) < 3:
            await asyncio.sleep(0.001)
        transport.close()
        await protocol.lost


@pytest.mark.parametrize("size", [5, 300_000])
async def test_a_protocol_that_get_buffer_replaces_is_given_no_data(size):
    """Its successor got the number of bytes as data, and the bytes were lost."""
    after = Recorder()

    class Gone(Buffered):
        def get_buffer(self, sizehint):
            after.connection_made(self.transport)
            self.transport.set_protocol(after)
            return super().get_buffer(sizehint)

    payload = random.Random(1).randbytes(size)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near, Gone)
        sending = asyncio.ensure_future(elsewhere(far.sendall, payload))
        while len(after.received) < size:
            await asyncio.sleep(0.001)
        await sending
        assert bytes(after.received) == payload and not protocol.received
        transport.close()
        await after.lost
