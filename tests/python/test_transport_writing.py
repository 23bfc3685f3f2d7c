"""Writing: what leaves, when, in which order; flow control; what happens when the peer is gone."""
from __future__ import annotations

import array
import asyncio
import logging
import random
import socket
import sys

import pytest

from harness.tcp import (Recorder, attach, elsewhere, read_all, read_exactly, reset, tcp_pair,
                         turns)


async def test_writes_of_one_turn_leave_in_order():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        pieces = [bytes([65 + n % 26]) * (n % 90) for n in range(500)]
        for piece in pieces:
            transport.write(piece)
        transport.close()
        assert await elsewhere(read_all, far) == b"".join(pieces)
        await protocol.lost


async def test_many_small_writes_of_a_turn_are_one_send():
    running = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        await turns()
        before = running._counters()["submitted"]
        for _ in range(100):
            transport.write(b"line\n")
        await turns(2)
        assert running._counters()["submitted"] - before <= 2
        assert await elsewhere(read_exactly, far, 500) == b"line\n" * 100
        transport.abort()
        await protocol.lost


async def test_random_writes_of_all_sizes_arrive_whole():
    generator = random.Random(3)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        reading = asyncio.ensure_future(elsewhere(read_all, far))
        sent = bytearray()
        for _ in range(300):
            piece = generator.randbytes(generator.choice((0, 1, 64, 1000, 5000, 40000, 200000)))
            kind = generator.choice((bytes, bytearray, memoryview))
            transport.write(kind(piece))
            sent += piece
            if generator.random() < 0.2:
                await asyncio.sleep(0)
        transport.write_eof()
        assert await reading == bytes(sent)
        transport.abort()
        await protocol.lost


async def test_mutable_buffers_are_taken_as_they_were():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        small = bytearray(b"before")
        transport.write(small)
        small[:] = b"AFTER!"
        view = bytearray(b"viewed")
        transport.write(memoryview(view))
        view[:] = b"AFTER!"
        view.extend(b"not exported any more")
        large = bytearray(b"a" * 100_000)
        transport.writelines([large, memoryview(large)])
        large[:] = b"b" * 100_000
        transport.close()
        assert await elsewhere(read_all, far) == b"beforeviewed" + b"a" * 200_000
        await protocol.lost


async def test_views_are_sent_as_their_bytes():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        wide = array.array("I", range(5000))
        spread = memoryview(b"a-b-c-")[::2]
        part = memoryview(bytes(range(256)) * 100)[1000:20000]
        transport.write(memoryview(wide))
        transport.write(spread)
        transport.write(part)
        transport.close()
        assert await elsewhere(read_all, far) == wide.tobytes() + b"abc" + bytes(part)
        await protocol.lost


async def test_bytes_are_not_copied():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        data = b"x" * 2000
        before = sys.getrefcount(data)
        transport.write(data)
        assert sys.getrefcount(data) == before + 1
        await elsewhere(read_exactly, far, 2000)
        await turns(4)
        assert sys.getrefcount(data) == before
        transport.abort()
        await protocol.lost


@pytest.mark.parametrize("bad", ["text", None, 5, [b"list"]])
async def test_other_types_are_refused(bad):
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        with pytest.raises(TypeError, match="bytes-like"):
            transport.write(bad)
        with pytest.raises(TypeError):
            transport.writelines(["text"])
        assert not transport.is_closing()
        transport.abort()
        await protocol.lost


async def test_write_eof_ends_the_write_side_only():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert transport.can_write_eof()
        transport.write(b"all")
        transport.write_eof()
        transport.write_eof()
        assert await elsewhere(read_all, far) == b"all"
        with pytest.raises(RuntimeError, match="write_eof"):
            transport.write(b"more")
        with pytest.raises(RuntimeError, match="write_eof"):
            transport.writelines([b"more"])
        far.sendall(b"still read")
        assert await protocol.receive(10) == b"still read"
        far.close()
        await protocol.lost


@pytest.mark.parametrize("again", [False, True], ids=["asked for then", "kept from before"])
async def test_a_shutdown_of_the_socket_itself_comes_behind_what_was_written(again):
    """A relay that read data and end in one turn ended its socket before the data had left."""
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        sock = transport.get_extra_info("socket")
        assert isinstance(sock, asyncio.trsock.TransportSocket)
        transport.write(b"the last")
        if not again:
            sock = transport.get_extra_info("socket")
        sock.shutdown(socket.SHUT_WR)
        assert await elsewhere(read_all, far) == b"the last"
        transport.abort()
        await protocol.lost
        with pytest.raises(OSError):
            sock.shutdown(socket.SHUT_WR)


async def test_what_a_duplicate_of_the_socket_sends_comes_behind_what_was_written():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(b"first ")
        with transport.get_extra_info("socket").dup() as duplicate:
            duplicate.send(b"second")
        transport.close()
        await protocol.lost
        assert await elsewhere(read_all, far) == b"first second"


async def test_a_shutdown_of_the_socket_with_much_queued_drops_it_as_in_asyncio():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(b"x" * 20_000_000)
        transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        assert len(await elsewhere(read_all, far)) < 20_000_000
        assert isinstance(await protocol.lost, BrokenPipeError)


async def test_a_shutdown_of_the_socket_ends_a_close_that_waited_for_the_turn():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(b"all")
        transport.close()
        transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        assert await protocol.lost is None
        assert await elsewhere(read_all, far) == b"all"


async def test_write_eof_without_data_is_immediate():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write_eof()
        assert far.recv(1) == b""
        transport.abort()
        await protocol.lost


async def test_a_slow_reader_pauses_the_writer_with_bounded_memory():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.set_write_buffer_limits(high=100_000)
        assert transport.get_write_buffer_limits() == (25_000, 100_000)
        piece = b"z" * 50_000
        written = 0
        largest = 0
        while written < 20 << 20:
            if protocol.events[-1] != "pause":
                transport.write(piece)
                written += len(piece)
            else:
                await elsewhere(read_exactly, far, 10_000)
            largest = max(largest, transport.get_write_buffer_size())
            if written >= 20 << 20:
                break
            await asyncio.sleep(0)
        assert largest <= 100_000 + len(piece)
        assert protocol.events.count("pause") > 1
        assert abs(protocol.events.count("pause") - protocol.events.count("resume")) <= 1
        transport.abort()
        await protocol.lost


async def test_drained_writers_are_resumed():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        payload = bytes(30 << 20)
        transport.write(payload)
        assert protocol.events == ["made", "pause"]
        assert await elsewhere(read_exactly, far, len(payload)) == payload
        while protocol.events[-1] != "resume":
            await asyncio.sleep(0)
        assert protocol.events == ["made", "pause", "resume"]
        assert transport.get_write_buffer_size() == 0
        transport.abort()
        await protocol.lost


async def test_a_high_water_mark_of_zero_pauses_only_what_cannot_leave():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.set_write_buffer_limits(high=0)
        transport.write(b"fits")
        assert protocol.events == ["made"]
        transport.write(bytes(30 << 20))
        assert protocol.events == ["made", "pause"]
        transport.abort()
        await protocol.lost


async def test_limits_are_checked():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert transport.get_write_buffer_limits() == (16384, 65536)
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high=1, low=2)
        transport.abort()
        await protocol.lost


async def test_pause_writing_that_raises_is_told_and_harmless():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with tcp_pair() as (near, far):
        class Bad(Recorder):
            def pause_writing(self):
                raise ValueError("on purpose")

            def resume_writing(self):
                raise ValueError("on purpose too")

        transport, protocol = await attach(near, Bad)
        payload = bytes(30 << 20)
        transport.write(payload)
        assert told[0]["message"] == "protocol.pause_writing() failed"
        await elsewhere(read_exactly, far, len(payload))
        while len(told) < 2:
            await asyncio.sleep(0)
        assert told[1]["message"] == "protocol.resume_writing() failed"
        assert not transport.is_closing()
        transport.abort()
        await protocol.lost
        told.clear()


async def test_a_client_gone_mid_send_ends_the_connection_with_its_error():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(bytes(64 << 20))
        await turns()
        assert transport.get_write_buffer_size() > 0
        reset(far)
        assert isinstance(await protocol.lost, (ConnectionResetError, BrokenPipeError))
        await turns()
        assert near.fileno() == -1
        assert transport.get_write_buffer_size() == 0


async def test_writes_to_a_lost_connection_are_silent_then_warned_about(caplog):
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        reset(far)
        await protocol.lost
        with caplog.at_level(logging.WARNING, logger="asyncio"):
            for _ in range(4):
                transport.write(b"into the void")
            assert not caplog.records
            for _ in range(3):
                transport.write(b"into the void")
        assert {r.getMessage() for r in caplog.records} == {"socket.send() raised exception."}


async def test_buffer_lists_what_waits():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert transport._buffer == [] and transport.get_write_buffer_size() == 0
        transport.write(b"one")
        transport.write(b"two")
        assert b"".join(transport._buffer) == b"onetwo"
        assert transport.get_write_buffer_size() == 6
        await elsewhere(read_exactly, far, 6)
        await turns()
        assert transport.get_write_buffer_size() == 0
        transport.abort()
        await protocol.lost


async def test_writelines_takes_any_iterable_and_obeys_flow_control():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.writelines(part for part in (b"a", bytearray(b"b"), memoryview(b"c"), b""))
        transport.writelines([])
        assert await elsewhere(read_exactly, far, 3) == b"abc"
        transport.writelines([bytes(1 << 20)] * 30)
        assert protocol.events[-1] == "pause"
        transport.abort()
        await protocol.lost


async def test_nodelay_is_set():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        transport.abort()
        await protocol.lost


async def test_writes_behind_a_close_are_dropped():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        transport.write(b"answer")
        transport.close()
        transport.write(b"too late")
        transport.writelines([b"this", b"too"])
        await protocol.lost
        assert await elsewhere(read_all, far) == b"answer"


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize("how", ["write", "writelines"])
async def test_a_released_view_is_refused(how, size):
    """A large one of bytes was sent, from memory that was somebody else's by then."""
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        view = memoryview(bytes(size))
        view.release()
        with pytest.raises(ValueError, match="released memoryview"):
            transport.write(view) if how == "write" else transport.writelines([view])
        transport.write(b"after")
        assert await elsewhere(far.recv, 100) == b"after"
        transport.close()
        await protocol.lost


async def test_a_water_mark_that_somebody_deletes_is_the_usual_one():
    """write() crashed."""
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        del transport._high_water
        transport.write(b"x")
        assert await elsewhere(far.recv, 10) == b"x"
        transport.abort()
        await protocol.lost
