"""Pipe transports: pipes, FIFOs, sockets and terminals, and every way in which they end."""
from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import gc
import os
import pty
import socket
import tempfile
import tty
import warnings

import pytest

from harness.tcp import Recorder, elsewhere, turns


def read_all(fd):
    parts = []
    while part := os.read(fd, 1 << 16):
        parts.append(part)
    return b"".join(parts)


def read_exactly(fd, count):
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, count - len(parts))
        assert part, f"end of the pipe after {len(parts)} of {count} bytes"
        parts += part
    return bytes(parts)


async def reading(file, factory=Recorder):
    return await asyncio.get_running_loop().connect_read_pipe(factory, file)


async def writing(file, factory=Recorder):
    return await asyncio.get_running_loop().connect_write_pipe(factory, file)


@contextlib.contextmanager
def a_pipe():
    """(reading end, writing end) as unbuffered files."""
    reader, writer = os.pipe()
    with open(reader, "rb", 0) as near, open(writer, "wb", 0) as far:
        yield near, far


@contextlib.contextmanager
def ends_of(kind, folder):
    if kind == "pipe":
        with a_pipe() as both:
            yield both
    elif kind == "fifo":
        name = os.path.join(folder, "fifo")
        os.mkfifo(name)
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(fd, True)
        with open(fd, "rb", 0) as near, open(name, "wb", 0) as far:
            yield near, far
    elif kind == "socket":
        ours, theirs = socket.socketpair()
        with open(ours.detach(), "rb", 0) as near, open(theirs.detach(), "wb", 0) as far:
            yield near, far
    else:
        master, slave = pty.openpty()
        tty.setraw(slave)
        with open(master, "rb", 0) as near, open(slave, "wb", 0) as far:
            yield near, far


KINDS = ("pipe", "fifo", "socket", "terminal")


# ---- both directions

@pytest.mark.parametrize("kind", KINDS)
async def test_bytes_go_through_and_the_end_is_told(kind, tmp_path):
    with ends_of(kind, tmp_path) as (near, far):
        reader, read = await reading(near)
        writer, written = await writing(far)
        assert isinstance(reader, asyncio.ReadTransport)
        assert isinstance(writer, asyncio.WriteTransport)
        assert reader.get_extra_info("pipe") is near and writer.get_extra_info("pipe") is far
        writer.write(b"hello ")
        writer.writelines([b"from ", b"here"])
        assert await read.receive(15) == b"hello from here"
        assert reader.is_reading() and not reader.is_closing() and not writer.is_closing()
        assert writer.can_write_eof()
        writer.write_eof()
        assert writer.is_closing()
        assert await written.lost is None
        lost = await read.lost
        if kind == "terminal":  # how its end looks to the kernel
            assert isinstance(lost, OSError) and lost.errno == errno.EIO
        else:
            assert lost is None and read.events[-2:] == ["eof", "lost"]
        await turns()
        assert near.closed and far.closed


async def test_a_terminal_can_be_written_by_its_master():
    master, slave = pty.openpty()
    tty.setraw(slave)
    with open(master, "wb", 0) as near, open(slave, "rb", 0) as far:
        writer, written = await writing(near)
        reader, read = await reading(far)
        writer.write(b"typed")
        assert await read.receive(5) == b"typed"
        reader.close()
        writer.close()
        assert (await read.lost, await written.lost) == (None, None)


async def test_the_null_device_is_always_ready():
    reader, read = await reading(open("/dev/null", "rb", 0))
    assert await read.lost is None and read.events == ["made", "eof", "lost"]
    writer, written = await writing(open("/dev/null", "wb", 0))
    writer.write(bytes(1 << 20))
    writer.close()
    assert await written.lost is None


@pytest.mark.parametrize("connect", [reading, writing])
async def test_a_regular_file_is_refused(connect):
    with tempfile.TemporaryFile() as file:
        with pytest.raises(ValueError, match="Pipe transport is (only )?for pipes"):
            await connect(file)
        gc.collect()
        assert not file.closed


@pytest.mark.parametrize("connect", [reading, writing])
async def test_a_closed_pipe_is_refused(connect):
    """A transport that never had a descriptor could not be finalized."""
    with a_pipe() as (near, far):
        pass
    with pytest.raises(ValueError, match="closed file"):
        await connect(near)
    gc.collect()


@pytest.mark.parametrize("side", [0, 1])
async def test_a_cancelled_connect_closes_the_pipe(side):
    with a_pipe() as ends:
        connect = (reading, writing)[side]
        task = asyncio.create_task(connect(ends[side]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await turns()
        assert ends[side].closed


@pytest.mark.parametrize("side", [0, 1])
async def test_a_transport_closed_before_it_started_is_not_watched(side):
    """The stock writer was watched from behind its end: whatever got its number was disturbed."""
    loop = asyncio.get_running_loop()
    with a_pipe() as ends:
        fd = ends[side].fileno()
        make = (loop._make_read_pipe_transport, loop._make_write_pipe_transport)[side]
        protocol = Recorder()
        transport = make(ends[side], protocol)
        (transport.abort if side else transport.close)()
        await protocol.lost
        await turns()
        assert ends[side].closed and protocol.events == ["made", "lost"]
        assert not loop.remove_reader(fd) and not loop.remove_writer(fd)


@pytest.mark.parametrize("connect", [reading, writing])
async def test_a_pipe_closed_by_its_user_takes_no_watch_of_the_next_owner_of_its_number(connect):
    """A child's pidfd that got the number lost its watch: wait() never ended."""
    loop = asyncio.get_running_loop()
    with a_pipe() as (reader, writer):
        file = reader if connect is reading else writer
        transport, protocol = await connect(file)
        number = file.fileno()
        transport.close()
        file.close()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            if ours.fileno() != number:
                os.dup2(ours.fileno(), number)
            readable = loop.create_future()
            loop.add_reader(number, lambda: readable.done() or readable.set_result(None))
            await protocol.lost
            theirs.send(b"x")
            await asyncio.wait_for(readable, 30)
            loop.remove_reader(number)
            if ours.fileno() != number:
                os.close(number)


@pytest.mark.parametrize("side", [0, 1])
async def test_a_factory_that_raises_leaves_the_pipe_to_its_owner(side):
    def factory():
        raise ValueError("on purpose")

    with a_pipe() as ends:
        with pytest.raises(ValueError, match="on purpose"):
            await (reading, writing)[side](ends[side], factory)
        assert not ends[side].closed


@pytest.mark.parametrize("side", [0, 1])
def test_a_loop_that_closes_first_leaves_a_warning_and_no_descriptor(run, side):
    async def main(ends):
        await (reading, writing)[side](ends[side])

    with a_pipe() as ends:
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            run(main(ends))
            gc.collect()
        assert ends[side].closed


async def test_a_hundred_pipes_at_once():
    with contextlib.ExitStack() as stack:
        pairs = []
        for number in range(100):
            near, far = stack.enter_context(a_pipe())
            pairs.append((await reading(near), await writing(far)))
        for number, (_, (writer, _)) in enumerate(pairs):
            writer.write(b"%03d" % number)
            writer.close()
        for number, ((_, read), (_, written)) in enumerate(pairs):
            assert await read.lost is None and await written.lost is None
            assert read.received == b"%03d" % number


async def test_streams_work_over_pipes():
    loop = asyncio.get_running_loop()
    with a_pipe() as (near, far):
        reader = asyncio.StreamReader()
        read_transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), near)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), far)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)

        async def fill():
            for number in range(5_000):
                writer.write(b"line %d\n" % number)
                await writer.drain()
            writer.close()

        filling = asyncio.create_task(fill())
        for number in range(5_000):
            assert await reader.readline() == b"line %d\n" % number
        assert await reader.read() == b""
        await filling
        await turns()
        assert far.closed and near.closed


# ---- reading

async def test_reading_pauses_and_goes_on():
    with a_pipe() as (near, far):
        reader, read = await reading(near)
        reader.pause_reading()
        reader.pause_reading()
        assert not reader.is_reading()
        far.write(b"waits")
        await turns(10)
        assert read.received == b""
        reader.resume_reading()
        reader.resume_reading()
        assert await read.receive(5) == b"waits"
        reader.pause_reading()
        far.close()
        await turns(10)
        assert not read.lost.done()
        reader.resume_reading()
        assert await read.lost is None


async def test_a_protocol_that_pauses_at_once_gets_nothing():
    class Pausing(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    with a_pipe() as (near, far):
        far.write(b"waits")
        reader, read = await reading(near, Pausing)
        await turns(10)
        assert read.received == b""
        reader.close()
        await read.lost
        reader.resume_reading()
        reader.close()


async def test_a_reader_takes_what_comes_in_pieces_of_any_size():
    data = os.urandom(3 << 20)
    with a_pipe() as (near, far):
        reader, read = await reading(near)
        await elsewhere(lambda: [far.write(data[at:at + 50_000])
                                 for at in range(0, len(data), 50_000)])
        far.close()
        assert await read.lost is None
        assert read.received == data


async def test_another_protocol_takes_over():
    with a_pipe() as (near, far):
        reader, first = await reading(near)
        far.write(b"first")
        await first.receive(5)
        second = Recorder()
        second.connection_made(reader)
        reader.set_protocol(second)
        assert reader.get_protocol() is second
        far.write(b"second")
        assert await second.receive(6) == b"second"
        reader.close()
        assert await second.lost is None and not first.lost.done()


# ---- writing

async def test_close_sends_what_is_queued_first():
    data = os.urandom(1 << 20)
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(data)
        assert writer.get_write_buffer_size() > 0
        writer.close()
        writer.write(b"too late")
        assert await elsewhere(read_all, near.fileno()) == data
        assert await written.lost is None


async def test_flow_control_follows_the_marks():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.set_write_buffer_limits(high=100_000, low=10_000)
        assert writer.get_write_buffer_limits() == (10_000, 100_000)
        while "pause" not in written.events:
            writer.write(bytes(10_000))
        assert writer.get_write_buffer_size() > 100_000
        size = writer.get_write_buffer_size()
        got = await elsewhere(read_exactly, near.fileno(), size)
        while "resume" not in written.events:
            got += await elsewhere(os.read, near.fileno(), 1 << 16)
        writer.close()
        await elsewhere(read_all, near.fileno())
        assert await written.lost is None


async def test_what_resume_writing_writes_before_a_close_arrives():
    """The stock transport ended at once, and a second time: the rest was lost, the watch stayed."""
    class Eager(Recorder):
        def resume_writing(self):
            super().resume_writing()
            self.transport.write(b"last" * 100_000)
            self.transport.write_eof()

    with a_pipe() as (near, far):
        writer, written = await writing(far, Eager)
        writer.set_write_buffer_limits(high=0)
        writer.write(b"first" * 100_000)
        data = await elsewhere(read_all, near.fileno())
        assert data == b"first" * 100_000 + b"last" * 100_000
        assert await written.lost is None
        await turns()
        assert written.events == ["made", "pause", "resume", "pause", "resume", "lost"]


async def test_a_changed_buffer_does_not_change_what_was_written():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        filler = bytes(1 << 20)
        writer.write(filler)
        data = bytearray(b"as it was")
        view = bytearray(b"and this")
        writer.write(data)
        writer.write(memoryview(view))
        data[:] = b"something"
        view[:] = b"not this"
        writer.close()
        assert (await elsewhere(read_all, near.fileno()))[1 << 20:] == b"as it wasand this"
        await written.lost


async def test_views_of_other_items_are_sent_as_their_bytes():
    """The stock transport takes a number of bytes for a number of items, and sends some twice."""
    numbers = array.array("q", range(100_000))
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(memoryview(numbers))
        writer.write(memoryview(b"abcdef")[::2])
        writer.close()
        assert await elsewhere(read_all, near.fileno()) == numbers.tobytes() + b"ace"
        await written.lost


async def test_abort_drops_what_is_queued_and_may_be_repeated():
    """The stock transport was lost a second time, and failed for want of a loop."""
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(bytes(1 << 20))
        writer.abort()
        writer.abort()
        assert await written.lost is None
        await turns()
        assert far.closed and written.events.count("lost") == 1
        writer.abort()
        writer.close()
        writer.write_eof()
        writer.write(b"nothing")
        assert len(read_all(near.fileno())) < 1 << 20


async def test_a_close_that_waits_can_be_aborted():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(bytes(1 << 20))
        writer.close()
        await turns(5)
        assert not written.lost.done()
        writer.abort()
        assert await written.lost is None


# ---- the peer

async def test_an_idle_writer_sees_its_peer_go():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        near.close()
        assert await written.lost is None


async def test_a_writer_with_a_queue_loses_a_broken_pipe():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(bytes(1 << 20))
        near.close()
        assert isinstance(await written.lost, BrokenPipeError)


async def test_a_write_to_a_peer_that_is_gone_loses_a_broken_pipe():
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        near.close()
        writer.write(b"nobody")
        for _ in range(10):
            writer.write(b"reads this")
        assert isinstance(await written.lost, BrokenPipeError)


@pytest.mark.parametrize("queued", [0, 1 << 20])
async def test_write_eof_is_silent_when_the_peer_is_gone(queued):
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    with a_pipe() as (near, far):
        writer, written = await writing(far)
        writer.write(bytes(queued))
        near.close()
        writer.write_eof()
        lost = await written.lost
        assert lost is None if not queued else isinstance(lost, BrokenPipeError)
        writer.write_eof()
        writer.close()
    assert not told


async def test_a_peer_that_sends_is_not_gone():
    """The stock writer took anything readable for the end of its peer."""
    ours, theirs = socket.socketpair()
    with theirs, open(ours.detach(), "wb", 0) as near:
        writer, written = await writing(near)
        theirs.sendall(b"unasked")
        await turns(10)
        assert not writer.is_closing()
        writer.write(b"still here")
        assert theirs.recv(100) == b"still here"
        writer.close()
        assert await written.lost is None


async def test_a_fifo_that_is_open_both_ways_is_not_ended_by_its_own_bytes(tmp_path):
    name = tmp_path / "fifo"
    os.mkfifo(name)
    with open(os.open(name, os.O_RDWR), "wb", 0) as near:
        writer, written = await writing(near)
        writer.write(b"kept")
        await turns(10)
        assert not writer.is_closing()
        assert os.read(near.fileno(), 100) == b"kept"
        writer.close()
        assert await written.lost is None


async def test_what_a_callback_raises_is_told_and_ends_nothing():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    class Raising(Recorder):
        def data_received(self, data):
            super().data_received(data)
            raise ValueError("on purpose")

    with a_pipe() as (near, far):
        reader, read = await reading(near, Raising)
        far.write(b"one")
        await read.receive(3)
        await turns()
        far.write(b"two")
        await read.receive(6)
        await turns()
        assert [str(context["exception"]) for context in told] == ["on purpose"] * 2
        reader.close()
        await read.lost


async def test_nothing_warns_when_transports_are_dropped_after_their_end():
    with warnings.catch_warnings(), a_pipe() as (near, far):
        warnings.simplefilter("error")
        reader, read = await reading(near)
        writer, written = await writing(far)
        assert "fd=" in repr(reader) and "fd=" in repr(writer)
        writer.close()
        await read.lost
        await turns()
        assert "closed" in repr(reader) and "closed" in repr(writer)
        del reader, writer
        gc.collect()
