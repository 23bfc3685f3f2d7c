"""asyncio's streams over the native data path: reads, limits, errors, cancels, flow control."""
from __future__ import annotations

import asyncio
import inspect
import random
import socket
import sys
from unittest import mock

import pytest

import ringloop
from harness.tcp import elsewhere, read_all, read_exactly, reset, tcp_pair, turns


async def open_pair(stack_pair, limit=2**16):
    """(reader, writer) over the near end."""
    near, _ = stack_pair
    near.setblocking(False)
    return await asyncio.open_connection(sock=near, limit=limit)


async def close(writer):
    writer.close()
    try:
        await writer.wait_closed()
    except ConnectionError:
        pass
    await turns()


async def test_the_stock_reader_becomes_native_and_stays_a_stream_reader():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        assert isinstance(reader, asyncio.StreamReader)
        assert type(reader) is not asyncio.StreamReader
        assert type(reader).__name__ == "StreamReader"
        assert isinstance(reader.read(1), ringloop.Awaitable)
        await close(writer)


async def test_reads_of_every_kind():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        pair[1].sendall(b"line one\nline two\nexactly|until;rest")
        assert await reader.readline() == b"line one\n"
        assert await reader.readuntil() == b"line two\n"
        assert await reader.readexactly(8) == b"exactly|"
        assert await reader.readuntil(b"il;") == b"until;"
        assert await reader.read(100) == b"rest"
        assert await reader.read(0) == b"" and await reader.readexactly(0) == b""
        pair[1].sendall(b"the end")
        pair[1].shutdown(socket.SHUT_WR)
        assert await reader.read() == b"the end"
        assert reader.at_eof()
        assert await reader.read(10) == b"" and await reader.readline() == b""
        await close(writer)


async def test_reads_that_wait_are_completed_by_what_arrives():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        far = pair[1]
        for start, sends, expected in [
            (lambda: reader.read(3), [b"abcdef"], b"abc"),
            (lambda: reader.readexactly(6), [b"g", b"hi"], b"defghi"),
            (lambda: reader.readline(), [b"x", b"y\nz"], b"xy\n"),
            (lambda: reader.readuntil(b"END"), [b"E", b"N", b"D!"], b"zEND"),
            (lambda: reader.read(100), [], b"!"),
        ]:
            task = asyncio.ensure_future(start())
            await turns()
            for piece in sends:
                await asyncio.sleep(0.005)
                far.sendall(piece)
            assert await task == expected
        await close(writer)


async def test_iteration_gives_lines():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        pair[1].sendall(b"a\nb\nlast")
        pair[1].shutdown(socket.SHUT_WR)
        assert [line async for line in reader] == [b"a\n", b"b\n", b"last"]
        await close(writer)


async def test_an_end_in_the_middle_is_an_incomplete_read():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        waiting = asyncio.ensure_future(reader.readexactly(10))
        await turns()
        pair[1].sendall(b"short")
        pair[1].shutdown(socket.SHUT_WR)
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await waiting
        assert caught.value.partial == b"short" and caught.value.expected == 10
        assert reader.at_eof()
        await close(writer)
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        pair[1].sendall(b"no separator")
        pair[1].shutdown(socket.SHUT_WR)
        with pytest.raises(asyncio.IncompleteReadError) as caught:
            await reader.readuntil(b"|")
        assert caught.value.partial == b"no separator" and caught.value.expected is None
        await close(writer)


async def test_a_line_beyond_the_limit_is_refused_and_reading_goes_on():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair, limit=10)
        pair[1].sendall(b"much longer than ten\nshort\n")
        with pytest.raises(ValueError, match="chunk is longer than limit"):
            await reader.readline()
        assert await reader.readline() == b"short\n"
        pair[1].sendall(b"an endless line without an end")
        with pytest.raises(ValueError, match="exceed the limit"):
            await reader.readline()
        await turns()
        pair[1].sendall(b"12345678901234567890|")
        while len(reader._buffer) < 21:
            await asyncio.sleep(0)
        with pytest.raises(asyncio.LimitOverrunError) as caught:
            await reader.readuntil(b"|")
        assert caught.value.consumed == 20
        assert await reader.readexactly(21) == b"12345678901234567890|"
        await close(writer)


async def test_a_second_waiting_read_is_refused():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        first = asyncio.ensure_future(reader.read(1))
        await turns()
        for attempt, name in [(reader.read(1), "read"), (reader.readexactly(1), "readexactly"),
                              (reader.readline(), "readuntil"),
                              (reader.readuntil(b"x"), "readuntil")]:
            with pytest.raises(RuntimeError, match=rf"^{name}\(\) called while another coroutine"):
                await attempt
        pair[1].sendall(b"1")
        assert await first == b"1"
        await close(writer)


async def test_bad_arguments_raise():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        with pytest.raises(ValueError, match="less than zero"):
            await reader.readexactly(-1)
        with pytest.raises(ValueError, match="eparator"):
            await reader.readuntil(b"")
        with pytest.raises(TypeError):
            await reader.readuntil(b"a", b"b", b"c")
        with pytest.raises(TypeError):
            writer.write("text")
        await close(writer)


@pytest.mark.parametrize("kind", ["read", "readexactly", "readline", "readuntil"])
async def test_a_cancelled_read_drops_nothing(kind):
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)

        def start():
            arguments = {"read": (100,), "readexactly": (4,), "readline": (), "readuntil": (b"\n",)}
            return getattr(reader, kind)(*arguments[kind])

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(start(), 0.01)
        assert reader._waiter is None
        pair[1].sendall(b"abc\n")
        assert await asyncio.wait_for(start(), 30) == b"abc\n"
        await close(writer)


@pytest.mark.parametrize("kind", ["read", "readexactly"])
async def test_a_read_cancelled_between_its_end_and_its_task_gives_the_bytes_back(kind):
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        task = asyncio.ensure_future(reader.read(4) if kind == "read" else reader.readexactly(4))
        await turns()
        pair[1].sendall(b"wxyz+more")
        while reader._waiter is not None:       # the read has ended, the task has not run yet
            await asyncio.sleep(0)
            if task.done():
                pytest.skip("the task ran in the same turn")
        task.cancel()
        await asyncio.wait([task])
        expected = b"wxyz+more" if task.cancelled() else b"+more"
        assert await reader.read(100) == expected
        await close(writer)


async def test_set_exception_reaches_the_read_that_waits_and_later_ones():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        waiting = asyncio.ensure_future(reader.read(1))
        await turns()
        reader.set_exception(ValueError("on purpose"))
        with pytest.raises(ValueError, match="on purpose"):
            await waiting
        for attempt in (reader.read(1), reader.readline(), reader.readexactly(1),
                        reader.readuntil(b"x")):
            with pytest.raises(ValueError, match="on purpose"):
                await attempt
        with pytest.raises(ValueError, match="on purpose"):
            await writer.drain()
        await close(writer)


async def test_a_reset_reaches_the_read_that_waits():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        waiting = asyncio.ensure_future(reader.readexactly(100))
        await turns()
        reset(pair[1])
        with pytest.raises(ConnectionResetError):
            await waiting
        with pytest.raises(ConnectionResetError):
            await writer.drain()
        await close(writer)


async def test_feeding_by_hand_wakes_a_native_read():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        waiting = asyncio.ensure_future(reader.readexactly(4))
        await turns()
        reader.feed_data(b"ab")
        await turns()
        assert not waiting.done()
        reader.feed_data(b"cd")
        assert await waiting == b"abcd"
        waiting = asyncio.ensure_future(reader.readexactly(4))
        await turns()
        reader.feed_data(b"ef")
        reader.feed_eof()
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting
        await close(writer)


async def test_stock_methods_and_native_ones_mix():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        waiting = asyncio.ensure_future(asyncio.StreamReader.readline(reader))
        await turns()
        with pytest.raises(RuntimeError, match="already waiting"):
            await reader.read(1)
        pair[1].sendall(b"stock\nnative\n")
        assert await waiting == b"stock\n"
        assert await reader.readline() == b"native\n"
        await close(writer)


async def test_reads_work_as_tasks_and_under_the_combinators():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        pair[1].sendall(b"abcdef")
        assert await asyncio.create_task(reader.read(1)) == b"a"
        assert await asyncio.gather(reader.readexactly(1)) == [b"b"]
        assert await asyncio.shield(asyncio.ensure_future(reader.readexactly(1))) == b"c"
        assert await asyncio.wait_for(reader.readexactly(1), 30) == b"d"
        done, _ = await asyncio.wait([asyncio.ensure_future(reader.readexactly(1))])
        assert done.pop().result() == b"e"
        unused = reader.read(1)         # never awaited: takes nothing
        del unused
        assert await reader.read(10) == b"f"
        await close(writer)


async def test_a_reader_nobody_reads_pauses_the_peer_with_bounded_memory():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair, limit=1000)
        sending = asyncio.ensure_future(elsewhere(pair[1].sendall, bytes(32 << 20)))
        while not reader._paused:
            await asyncio.sleep(0)
        await turns(20)
        assert len(reader._buffer) < 1 << 20 and not sending.done()
        assert len(await reader.readexactly(32 << 20)) == 32 << 20
        await sending
        await close(writer)


async def test_a_writer_waits_in_drain_until_the_peer_reads():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        writer.write(bytes(30 << 20))
        draining = asyncio.ensure_future(writer.drain())
        await turns()
        assert not draining.done()
        await elsewhere(read_exactly, pair[1], 30 << 20)
        await draining
        await close(writer)


async def test_drain_after_close_raises_in_the_end():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        writer.close()
        with pytest.raises(ConnectionResetError):
            while True:
                writer.write(b"x")
                await writer.drain()
        await close(writer)


@pytest.mark.parametrize("seed", range(3))
async def test_an_echo_server_returns_everything(seed):
    async def echo(reader, writer):
        assert type(writer) is not asyncio.StreamWriter and isinstance(writer, asyncio.StreamWriter)
        while data := await reader.read(70_000):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    payload = random.Random(seed).randbytes(5 << 20)

    def drive(address):
        import threading
        with socket.create_connection(address, 30) as client:
            def send():
                client.sendall(payload)
                client.shutdown(socket.SHUT_WR)
            thread = threading.Thread(target=send)
            thread.start()
            received = read_all(client)
            thread.join()
            return received

    address = server.sockets[0].getsockname()
    results = await asyncio.gather(*(elsewhere(drive, address) for _ in range(3)))
    assert all(result == payload for result in results)
    server.close()
    await server.wait_closed()


async def test_a_handler_that_raises_is_told():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    async def failing(reader, writer):
        try:
            raise ValueError("on purpose")
        finally:
            writer.close()

    server = await asyncio.start_server(failing, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname(), 30) as client:
        assert await elsewhere(read_all, client) == b""
    await turns()
    if sys.version_info >= (3, 12):
        assert isinstance(told[0]["exception"], ValueError)
    server.close()
    await server.wait_closed()
    told.clear()


async def test_subclasses_keep_their_own_methods():
    class Mine(asyncio.StreamReader):
        async def read(self, n=-1):
            return b"mine"

        def feed_data(self, data):
            super().feed_data(data.upper())

    with tcp_pair() as (near, far):
        loop = asyncio.get_running_loop()
        reader = Mine(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        near.setblocking(False)
        transport, _ = await loop.create_connection(lambda: protocol, sock=near)
        assert type(reader) is Mine
        far.sendall(b"line\n")
        assert await reader.readline() == b"LINE\n"
        assert await reader.read() == b"mine"
        transport.close()
        await turns()


async def test_methods_of_the_stock_classes_that_were_replaced_are_called():
    """Tests of other libraries patch them; a stream that was made then went past the patch."""
    with tcp_pair() as pair, mock.patch("asyncio.StreamReader.readline", return_value=b"line"):
        reader, writer = await open_pair(pair)
        assert await reader.readline() == b"line"
        await close(writer)
    with tcp_pair() as pair, mock.patch("asyncio.StreamReaderProtocol.data_received") as received:
        reader, writer = await open_pair(pair)
        pair[1].sendall(b"data")
        while not received.called:
            await asyncio.sleep(0)
        received.assert_called_once_with(b"data")
        await close(writer)


async def test_a_reader_with_a_method_of_its_own_is_fed_through_it():
    loop = asyncio.get_running_loop()
    with tcp_pair() as (near, far):
        reader = asyncio.StreamReader(loop=loop)
        stock = reader.feed_data
        reader.feed_data = lambda data: stock(data.upper())
        near.setblocking(False)
        transport, _ = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), sock=near)
        far.sendall(b"line\n")
        assert await reader.readline() == b"LINE\n"
        transport.close()
        await turns()


async def test_another_protocol_takes_the_data_and_the_reader_falls_back():
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        received = bytearray()

        class Other(asyncio.Protocol):
            def data_received(self, data):
                received.extend(data)

        parked = asyncio.ensure_future(reader.read(10))
        await turns()
        old = writer.transport.get_protocol()
        writer.transport.set_protocol(Other())
        pair[1].sendall(b"other")
        while len(received) < 5:
            await asyncio.sleep(0)
        assert not parked.done()
        reader.feed_data(b"by hand")
        assert await parked == b"by hand"
        fallback = reader.read(1)
        assert inspect.iscoroutine(fallback)
        fallback.close()
        writer.transport.set_protocol(old)
        pair[1].sendall(b"again")
        assert await reader.readexactly(5) == b"again"
        await close(writer)


def test_a_read_that_waits_when_its_loop_is_closed_is_cancelled(loop):
    with tcp_pair() as pair:
        async def park():
            reader, writer = await open_pair(pair)
            return reader, writer, asyncio.ensure_future(reader.read(1))

        reader, writer, task = loop.run_until_complete(park())
        loop.run_until_complete(turns())
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        assert task.cancelled()
        writer.close()
        loop.run_until_complete(turns(5))


# ---- the same script on asyncio's own loop and on ours gives the same answers

def script(seed: int):
    """Random (send sizes, reads) of every kind, with separators in the data."""
    generator = random.Random(seed)
    data = bytes(generator.choice(b"abcdefgh\n|") for _ in range(30_000))
    reads = []
    for _ in range(400):
        reads.append(generator.choice([
            ("read", generator.choice((1, 7, 100, 5000))),
            ("readexactly", generator.choice((1, 3, 64, 900))),
            ("readline", None), ("readuntil", b"|"), ("readuntil", b"ab"), ("readuntil", b"a\n|")]))
    cuts = sorted(generator.sample(range(1, len(data)), 60))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]
    return pieces, reads, generator.choice((50, 200, 2**16))


async def play(seed: int):
    """What each read of the script gave, and then everything that was left."""
    pieces, reads, limit = script(seed)
    answers = []
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair, limit)
        position = 0
        for index, (name, argument) in enumerate(reads):
            arguments = () if argument is None else (argument,)
            if position < len(pieces) and index % 3 == 0 and not reader._paused:
                # The whole piece arrives before the read: both loops then see the same buffer.
                size = len(reader._buffer)
                pair[1].sendall(pieces[position])
                while len(reader._buffer) < size + len(pieces[position]):
                    await asyncio.sleep(0)
                position += 1
            try:
                answer = await asyncio.wait_for(getattr(reader, name)(*arguments), 0.02)
            except (asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError) as error:
                answer = (type(error).__name__, getattr(error, "consumed", None))
            answers.append((name, argument, answer))
        await elsewhere(pair[1].sendall, b"".join(pieces[position:]))
        pair[1].shutdown(socket.SHUT_WR)
        answers.append(await reader.read())
        await close(writer)
    return answers


@pytest.mark.parametrize("seed", range(3))
def test_random_reads_give_what_they_give_on_asyncio(seed, run):
    ours = run(play(seed))
    stock = asyncio.run(play(seed), loop_factory=asyncio.SelectorEventLoop) \
        if sys.version_info >= (3, 12) else asyncio.run(play(seed))
    for mine, theirs in zip(ours, stock):
        assert mine == theirs
    assert len(ours) == len(stock)


@pytest.mark.parametrize("ahead", range(6))
async def test_bytes_that_a_cancelled_read_gives_back_come_before_later_ones(ahead):
    """A read in the same turn got the bytes behind them."""
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        first = asyncio.create_task(reader.readexactly(3))
        await turns()
        pair[1].sendall(b"abcdef")
        for _ in range(ahead):
            await asyncio.sleep(0)
        first.cancel()
        got = await reader.read(6) if first.done() else b""
        if first.done() and not first.cancelled():
            got = first.result() + got
        while len(got) < 6:
            try:
                got += await reader.read(6)
            except RuntimeError:    # `first` has not seen its cancel
                await asyncio.sleep(0)
        assert got == b"abcdef"
        await close(writer)


@pytest.mark.parametrize("kind", ["given back", "taken"])
async def test_a_read_behind_one_that_has_its_bytes_waits_for_what_becomes_of_them(kind):
    """It found the buffer empty and slept, while bytes came back to it."""
    with tcp_pair() as pair:
        reader, writer = await open_pair(pair)
        first, second, third = reader.readexactly(5), reader.read(100), reader.read(100)

        async def wait(read):
            return await read

        waiting = asyncio.create_task(wait(first))
        await turns()
        behind = []

        def done(_):    # runs behind the first task's wake-up, which is still to come or just was
            if kind == "given back":
                waiting.cancel()
            behind.append(asyncio.create_task(wait(second)))

        callbacks = [done]
        first.add_done_callback(lambda _: callbacks.pop()(None))
        pair[1].sendall(b"hello")
        while callbacks:
            await asyncio.sleep(0)
        if waiting.done() and kind == "given back":
            assert waiting.result() == b"hello"
            pair[1].sendall(b"hello")
        elif kind == "taken":
            assert await waiting == b"hello"
            pair[1].sendall(b"hello")
        assert await asyncio.wait_for(behind[0], 30) == b"hello"
        third.close()
        await close(writer)
