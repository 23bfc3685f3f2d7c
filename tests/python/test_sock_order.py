"""sock_* called side by side, or cancelled and followed by others: order, and nothing lost, as far
as one socket object goes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import struct
from typing import Any, AsyncIterator, Iterator

import pytest
from harness import datagrams
from harness.loops import Run

Pair = tuple[socket.socket, socket.socket]
KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)


@contextlib.contextmanager
def socket_pair(kind: int = socket.SOCK_STREAM) -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        for each in (ours, theirs):
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        yield ours, theirs


@contextlib.contextmanager
def tcp_pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@contextlib.asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """With this many operations in flight small sends wait for the turn's submission."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        quiet = [stack.enter_context(socket_pair())[0] for _ in range(10)]
        tasks = [asyncio.create_task(loop.sock_recv(each, 1)) for each in quiet]
        await asyncio.sleep(0)
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


async def receive(ours: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += await asyncio.get_running_loop().sock_recv(ours, size - len(got))
    return got


# ---- writing


def test_a_large_sendall_stays_behind_a_small_one(run: Run) -> None:
    """A body went at once, its header with the turn: the body came first."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        head, body = b"header", b"b" * 50_000
        async with busy_loop():
            with socket_pair() as (ours, theirs):
                sending = asyncio.gather(
                    loop.sock_sendall(theirs, head),
                    loop.sock_sendall(theirs, body),
                    loop.sock_sendall(theirs, head),
                )
                got = await receive(ours, len(head + body + head))
                assert got == head + body + head
                await sending

    run(main())


def test_many_sendalls_of_any_size_arrive_in_their_order(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        pieces = [bytes([n % 256]) * (40_000 if n % 50 == 0 else 7) for n in range(3000)]
        async with busy_loop():
            with socket_pair() as (ours, theirs):
                ended: list[int] = []

                async def send(number: int) -> None:
                    await loop.sock_sendall(theirs, pieces[number])
                    ended.append(number)

                tasks = [asyncio.create_task(send(number)) for number in range(len(pieces))]
                got = await receive(ours, sum(map(len, pieces)))
                assert got == b"".join(pieces)
                await asyncio.gather(*tasks)
                assert ended == sorted(ended)

    run(main())


def test_a_file_keeps_its_place_between_two_sendalls(run: Run) -> None:
    """It overtook what waited for the turn, and let later data in between its pieces."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        content = os.urandom(3 << 20)
        with _file_of(content) as file:
            async with busy_loop():
                with socket_pair() as (ours, theirs):
                    sending = asyncio.gather(
                        loop.sock_sendall(theirs, b"first"),
                        loop.sock_sendfile(theirs, file, fallback=False),
                        loop.sock_sendall(theirs, b"last"),
                    )
                    got = await receive(ours, 5 + len(content) + 4)
                    assert got == b"first" + content + b"last"
                    assert (await sending)[1] == len(content)

    run(main())


def _file_of(content: bytes) -> io.BufferedRandom:
    file = os.fdopen(os.memfd_create("content"), "w+b")
    file.write(content)
    file.seek(0)
    return file


def test_a_cancelled_file_makes_room_for_the_next(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with _file_of(bytes(8 << 20)) as file, socket_pair() as (ours, theirs):
            first = asyncio.create_task(loop.sock_sendfile(theirs, file, fallback=False))
            second = asyncio.create_task(loop.sock_sendfile(theirs, file, 0, 1, fallback=False))
            third = asyncio.create_task(loop.sock_sendall(theirs, b"third"))
            await asyncio.sleep(0.01)
            assert not first.done() and not second.done() and not third.done()
            second.cancel()
            await cancelled(second)
            first.cancel()
            await cancelled(first)
            assert (await receive(ours, file.tell() + 5))[-5:] == b"third"
            await third

    run(main())


def test_a_sendall_that_waits_behind_another_is_cancelled_at_once(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair() as (ours, theirs):
            tasks = [
                asyncio.create_task(loop.sock_sendall(theirs, data))
                for data in (bytes(8 << 20), b"never", b"last")
            ]
            await asyncio.sleep(0.01)
            tasks[1].cancel()
            await cancelled(tasks[1])
            assert not tasks[0].done() and not tasks[2].done()
            got = await receive(ours, (8 << 20) + 4)
            assert got[-4:] == b"last" and b"never" not in got
            await asyncio.gather(tasks[0], tasks[2])

    run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_sendall_that_was_not_awaited_sent_nothing(run: Run, kind: int) -> None:
    """It sent when it was called: also for a task that was cancelled before its first step."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair(kind) as (ours, theirs):
            task = asyncio.create_task(loop.sock_sendall(theirs, b"task"))
            task.cancel()
            await cancelled(task)
            loop.sock_sendall(theirs, b"closed").close()
            with pytest.raises(BlockingIOError):
                ours.recv(10)
            await loop.sock_sendall(theirs, b"sent")
            assert ours.recv(10) == b"sent"

    run(main())


def test_an_empty_sendall_is_a_datagram(run: Run) -> None:
    async def main() -> None:
        with socket_pair(socket.SOCK_DGRAM) as (ours, theirs):
            await asyncio.get_running_loop().sock_sendall(theirs, b"")
            assert ours.recv(10) == b""

    run(main())


# ---- reading


@pytest.mark.parametrize("kind", (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET))
@pytest.mark.parametrize("size", (1000, 65536, 65537, 200_000))
@pytest.mark.parametrize("early", (False, True))
def test_datagrams_are_neither_joined_nor_cut(
    run: Run, kind: int, size: int, early: bool
) -> None:
    """One larger than a buffer of the pool was cut, the next joined to one that filled it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair(kind) as (ours, theirs):
            for into in (False, True):

                async def take() -> bytes:
                    if not into:
                        return await loop.sock_recv(ours, 300_000)
                    buffer = bytearray(300_000)
                    return bytes(buffer[: await loop.sock_recv_into(ours, buffer)])

                task = asyncio.create_task(take())
                if not early:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                theirs.send(b"1" * size)
                theirs.send(b"2" * 10)
                assert await task == b"1" * size
                assert await take() == b"2" * 10

    run(main())


@pytest.mark.parametrize("size", (100, 100_000))
def test_a_cancelled_receive_of_a_datagram_loses_none(run: Run, size: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair(socket.SOCK_DGRAM) as (ours, theirs):
            for data in (b"one", b"", b"three"):
                task = asyncio.create_task(loop.sock_recv(ours, size))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                theirs.send(data)
                theirs.send(b"next")
                task.cancel()
                await cancelled(task)
                assert await loop.sock_recv(ours, 100) == data
                assert await loop.sock_recv(ours, 2) == b"ne"  # the rest of it is cut off

    run(main())


def test_receives_are_served_in_the_order_of_their_calls(run: Run) -> None:
    """The ring served the last one first."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair() as (ours, theirs):
            buffer = bytearray(2)
            tasks: list[asyncio.Task[Any]] = [
                asyncio.create_task(loop.sock_recv(ours, 2)),
                asyncio.create_task(loop.sock_recv_into(ours, buffer)),
                asyncio.create_task(loop.sock_recvfrom(ours, 2)),
                asyncio.create_task(loop.sock_recv(ours, 2)),
            ]
            await asyncio.sleep(0.01)
            theirs.send(b"aabbccdd")
            got = await asyncio.gather(*tasks)
            assert got == [b"aa", 2, (b"cc", None), b"dd"] and buffer == b"bb"

    run(main())


@pytest.mark.parametrize("into", (False, True))
@pytest.mark.parametrize("size", (1, 2, 6))
@pytest.mark.parametrize("turns", range(4))
def test_bytes_of_a_cancelled_receive_come_before_later_ones(
    run: Run, into: bool, size: int, turns: int
) -> None:
    """A next call for fewer bytes put the rest of them behind what came later."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def take(count: int) -> bytes:
            if not into:
                return await loop.sock_recv(ours, count)
            buffer = bytearray(count)
            return bytes(buffer[: await loop.sock_recv_into(ours, buffer)])

        with socket_pair() as (ours, theirs):
            first = asyncio.create_task(take(3))
            for _ in range(3):
                await asyncio.sleep(0)
            theirs.send(b"abcdef")
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            second = asyncio.create_task(take(size))
            async with asyncio.timeout(30):
                got = await second
                if not first.cancelled():
                    got = await first + got
                while len(got) < 6:
                    got += await take(size)
            assert got == b"abcdef"

    run(main())


def test_a_result_that_nobody_took_before_its_loop_closed_blocks_nobody(run: Run) -> None:
    with socket_pair() as (ours, theirs):
        left: list[Any] = []

        async def leave() -> None:
            awaitable = asyncio.get_running_loop().sock_recv(ours, 1)
            awaitable.add_done_callback(lambda _: None)
            left.append(awaitable)
            theirs.send(b"ab")
            while not awaitable.done():
                await asyncio.sleep(0)

        async def take() -> bytes:
            async with asyncio.timeout(30):
                return await asyncio.get_running_loop().sock_recv(ours, 1)

        run(leave())
        assert run(take()) == b"b"
        assert left.pop().result() == b"a"


def test_a_new_socket_does_not_wait_for_a_closed_one_of_its_number(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        old, old_peer = socket.socketpair()
        old.setblocking(False)
        left = [asyncio.create_task(loop.sock_recv(old, 10)) for _ in range(2)]
        await asyncio.sleep(0.01)
        old.close()  # on epoll its number is free when its call ends
        with socket_pair() as (ours, theirs):
            async with asyncio.timeout(30):
                waiting = [asyncio.create_task(loop.sock_recv(ours, 1)) for _ in range(3)]
                await asyncio.sleep(0.01)
                theirs.send(b"new")
                assert await asyncio.gather(*waiting) == [b"n", b"e", b"w"]
                old_peer.close()
                assert await left[0] == b""
                with pytest.raises(OSError):
                    await left[1]

    run(main())


def test_a_reset_reaches_the_receive_beside_a_sendall(run: Run) -> None:
    """The ring told the send alone, and the receive saw an ordinary end."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(10):
            with tcp_pair() as (ours, theirs):
                reading = asyncio.create_task(loop.sock_recv(ours, 100))
                sending = asyncio.create_task(loop.sock_sendall(ours, bytes(20_000_000)))
                await asyncio.sleep(0.005)
                linger = struct.pack("ii", 1, 0)
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                theirs.close()
                with pytest.raises(ConnectionResetError):
                    await reading
                with pytest.raises(ConnectionError):
                    await sending

    run(main())


def test_an_end_beside_a_sendall_is_an_end(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with tcp_pair() as (ours, theirs):
            reading = asyncio.create_task(loop.sock_recv(ours, 100))
            sending = asyncio.create_task(loop.sock_sendall(ours, bytes(20_000_000)))
            await asyncio.sleep(0.005)
            theirs.shutdown(socket.SHUT_WR)
            assert await reading == b""
            assert await loop.sock_recv(ours, 100) == b""
            assert not sending.done()
            sending.cancel()
            await cancelled(sending)

    run(main())


# ---- what a cancelled receive left, and calls of other kinds


async def leave_bytes(ours: socket.socket, theirs: socket.socket, data: bytes) -> None:
    task = asyncio.create_task(asyncio.get_running_loop().sock_recv(ours, 100))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    theirs.send(data)
    task.cancel()
    await cancelled(task)


def test_kept_bytes_reach_recvfrom(run: Run) -> None:
    """Only another sock_recv, or sock_recv_into, got them."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket_pair() as (ours, theirs):
            await leave_bytes(ours, theirs, b"abcdef")
            async with asyncio.timeout(30):
                buffer = bytearray(10)
                assert (await loop.sock_recvfrom(ours, 2))[0] == b"ab"
                assert (await loop.sock_recvfrom_into(ours, buffer, 2))[0] == 2
                assert (await loop.sock_recvfrom_into(ours, buffer))[0] == 2
                assert buffer[:2] == b"ef"

    run(main())


@pytest.mark.parametrize("into", (False, True))
def test_kept_datagrams_reach_calls_of_any_kind(run: Run, into: bool) -> None:
    """One that a cancelled sock_recvfrom_into had received was lost."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with datagrams.sockets() as (ours, theirs):
            address = theirs.getsockname()
            theirs.connect(ours.getsockname())
            buffer = bytearray(100)
            awaitable: Any = (
                loop.sock_recvfrom_into(ours, buffer) if into else loop.sock_recvfrom(ours, 100)
            )

            async def wait() -> Any:
                return await awaitable

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            awaitable.add_done_callback(lambda _: task.cancel())  # behind the task's own wake-up
            theirs.send(b"kept")
            while not awaitable.done():
                await asyncio.sleep(0)
            task.cancel()
            if task.done():
                pytest.skip("it was faster")
            await cancelled(task)
            async with asyncio.timeout(30):
                assert await loop.sock_recvfrom(ours, 100) == (b"kept", address)

    run(main())


@pytest.mark.parametrize("kind", ("streams", "protocol", "buffered"))
def test_kept_bytes_are_the_first_data_of_a_transport(run: Run, kind: str) -> None:
    """They were lost: it read what came next from the socket."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        got = bytearray()

        class Plain(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                got.extend(data)

        class Buffered(asyncio.BufferedProtocol):
            memory = bytearray(4)

            def get_buffer(self, _: int) -> bytearray:
                return self.memory

            def buffer_updated(self, size: int) -> None:
                got.extend(self.memory[:size])

        with socket_pair() as (ours, theirs):
            await leave_bytes(ours, theirs, b"kept, ")
            theirs.send(b"later")
            async with asyncio.timeout(30):
                if kind == "streams":
                    reader, writer = await asyncio.open_connection(sock=ours)
                    got.extend(await reader.readexactly(11))
                    writer.close()
                    await writer.wait_closed()
                else:
                    factory = Plain if kind == "protocol" else Buffered
                    transport, _ = await loop.create_connection(factory, sock=ours)
                    while len(got) < 11:
                        await asyncio.sleep(0)
                    transport.close()
                    await asyncio.sleep(0.01)
            assert got == b"kept, later"

    run(main())
