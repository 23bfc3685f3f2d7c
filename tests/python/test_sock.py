"""sock_* of EventLoop: awaits on the ring, on both backends.

The hard part is cancelling: bytes and connections that came all the same belong to the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any, Iterator

import pytest
from harness import accounts, datagrams
from harness.forks import fork
from harness.loops import Run


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def listener() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


def client() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


Pair = tuple[socket.socket, socket.socket]


def test_recv_gives_what_came_and_waits_for_what_did_not(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        await loop.sock_sendall(theirs, b"first")
        assert await loop.sock_recv(ours, 100) == b"first"
        waiting = asyncio.create_task(loop.sock_recv(ours, 100))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        theirs.send(b"second")
        assert await waiting == b"second"
        theirs.close()
        assert await loop.sock_recv(ours, 100) == b""

    run(main())


def test_recv_takes_no_more_than_it_was_asked_for(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        theirs.send(b"abcdef")
        assert await loop.sock_recv(ours, 2) == b"ab"
        assert ours.recv(100) == b"cdef"
        assert await loop.sock_recv(ours, 0) == b""

    run(main())


def test_recv_into_fills_the_buffer(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        buffer = bytearray(4)
        waiting = asyncio.create_task(loop.sock_recv_into(ours, buffer))
        await asyncio.sleep(0)
        theirs.send(b"abcdef")
        assert await waiting == 4 and buffer == b"abcd"
        assert await loop.sock_recv_into(ours, memoryview(buffer)[:3]) == 2
        assert buffer == b"efcd"

    run(main())


@pytest.mark.parametrize("size", [1, 1000, 32 * 1024, 1 << 20, 5 << 20])
def test_sendall_sends_all_of_any_size(run: Run, pair: Pair, size: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        data = os.urandom(size)
        sending = asyncio.ensure_future(loop.sock_sendall(theirs, data))
        got = bytearray()
        while len(got) < size:
            got += await loop.sock_recv(ours, 256 * 1024)
        assert await sending is None
        assert got == data

    run(main())


def test_a_hundred_connections_at_once(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = listener()

        async def serve(connection: socket.socket) -> None:
            with connection:
                while data := await loop.sock_recv(connection, 1024):
                    await loop.sock_sendall(connection, data)

        async def accept() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(100):
                    connection, _ = await loop.sock_accept(server)
                    assert connection.gettimeout() == 0
                    group.create_task(serve(connection))

        async def talk(number: int) -> None:
            with client() as sock:
                await loop.sock_connect(sock, server.getsockname())
                for turn in range(10):
                    message = f"{number}.{turn}".encode() * 10
                    await loop.sock_sendall(sock, message)
                    got = b""
                    while len(got) < len(message):
                        got += await loop.sock_recv(sock, 1024)
                    assert got == message

        accepting = asyncio.create_task(accept())
        await asyncio.gather(*(talk(number) for number in range(100)))
        await accepting
        server.close()

    run(main())


def test_connect_resolves_names_and_reports_refusals(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with listener() as server, client() as sock:
            await loop.sock_connect(sock, ("localhost", server.getsockname()[1]))
            connection, address = await loop.sock_accept(server)
            connection.close()
            assert address == sock.getsockname()
        address = server_gone()
        with client() as sock, pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(sock, address)

    run(main())


def server_gone() -> Any:
    with listener() as server:
        return server.getsockname()


def test_datagrams(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with datagrams.sockets() as (ours, theirs):
            waiting = asyncio.create_task(loop.sock_recvfrom(ours, 100))
            await asyncio.sleep(0)
            assert await loop.sock_sendto(theirs, b"hello", ours.getsockname()) == 5
            assert await waiting == (b"hello", theirs.getsockname())
            await loop.sock_sendto(theirs, b"again", ours.getsockname())
            buffer = bytearray(10)
            assert await loop.sock_recvfrom_into(ours, buffer) == (5, theirs.getsockname())
            assert buffer[:5] == b"again"

    run(main())


# ---- cancelling


async def started(awaitable: Any) -> asyncio.Task[Any]:
    async def wait() -> Any:
        return await awaitable

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_recv_has_left_the_socket(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        before = loop._counters()["in_flight"]
        task = await started(loop.sock_recv(ours, 100))
        assert loop._counters()["in_flight"] == before + 1
        task.cancel()
        await cancelled(task)
        assert loop._counters()["in_flight"] == before
        theirs.send(b"later")
        assert ours.recv(100) == b"later"

    run(main())


@pytest.mark.parametrize("into", [False, True])
def test_bytes_that_beat_the_cancel_go_to_the_next_call(run: Run, pair: Pair, into: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        for _ in range(50):
            buffer = bytearray(100)
            task = await started(
                loop.sock_recv_into(ours, buffer) if into else loop.sock_recv(ours, 100)
            )
            theirs.send(b"abcdef")  # the operation has them now
            task.cancel()
            await cancelled(task)
            assert await loop.sock_recv(ours, 4) == b"abcd"
            assert await loop.sock_recv_into(ours, buffer) == 2 and buffer[:2] == b"ef"

    run(main())


@pytest.mark.parametrize("into", [False, True])
def test_bytes_that_beat_the_cancel_reach_a_call_made_right_behind_it(
    run: Run, pair: Pair, into: bool
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        for number in range(20):
            task = await started(loop.sock_recv(ours, 1))
            theirs.send(b"%d" % (number % 10))
            task.cancel()
            if into:
                buffer = bytearray(1)
                async with asyncio.timeout(20):
                    assert await loop.sock_recv_into(ours, buffer) == 1
                got = bytes(buffer)
            else:
                async with asyncio.timeout(20):
                    got = await loop.sock_recv(ours, 1)
            assert got == b"%d" % (number % 10)
            await cancelled(task)

    run(main())


def test_a_cancel_between_result_and_wake_up_loses_nothing(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        awaitable = loop.sock_recv(ours, 100)
        task = await started(awaitable)
        awaitable.add_done_callback(lambda _: None)
        theirs.send(b"data")
        while not awaitable.done():  # its task wakes up a turn later
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await cancelled(task)
            assert await loop.sock_recv(ours, 100) == b"data"
        else:
            assert task.result() == b"data"

    run(main())


def test_a_connection_that_beat_the_cancel_goes_to_the_next_accept(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with listener() as server:
            for _ in range(20):
                task = await started(loop.sock_accept(server))
                with client() as sock:
                    sock.connect_ex(server.getsockname())
                    task.cancel()
                    await cancelled(task)
                    async with asyncio.timeout(10):
                        connection, address = await loop.sock_accept(server)
                    assert address == sock.getsockname()
                    connection.close()

    run(main())


def test_cancelled_connects_and_sends_leave_nothing_in_flight(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, _ = pair
        before = loop._counters()["in_flight"]
        task = await started(loop.sock_sendall(ours, bytes(8 << 20)))
        assert not task.done()
        task.cancel()
        await cancelled(task)
        with client() as sock:
            task = await started(loop.sock_connect(sock, ("127.0.0.1", 9)))
            task.cancel()
            with pytest.raises((asyncio.CancelledError, ConnectionRefusedError)):
                await task
        assert loop._counters()["in_flight"] == before

    run(main())


def test_a_timeout_around_recv(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await loop.sock_recv(ours, 100)
        theirs.send(b"x")
        assert await loop.sock_recv(ours, 100) == b"x"

    run(main())


# ---- misuse


def test_debug_mode_refuses_blocking_sockets(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, _ = pair
        ours.setblocking(True)
        for call in (
            lambda: loop.sock_recv(ours, 1),
            lambda: loop.sock_sendall(ours, b"x"),
            lambda: loop.sock_accept(ours),
            lambda: loop.sock_connect(ours, "x"),
        ):
            with pytest.raises(ValueError, match="non-blocking"):
                await call()

    run(main(), debug=True)


def test_bad_arguments_raise_at_once(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        with pytest.raises(ValueError):
            loop.sock_recv(ours, -1)
        with pytest.raises(TypeError):
            loop.sock_recv(ours, "1")
        with pytest.raises(TypeError):
            loop.sock_sendall(ours, "text")
        with pytest.raises(TypeError):
            loop.sock_recv_into(ours, b"read-only")

    run(main())


def test_a_closed_socket_raises(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        ours.close()
        for awaitable in (
            loop.sock_recv(ours, 1),
            loop.sock_sendall(ours, b"x"),
            loop.sock_accept(ours),
        ):
            with pytest.raises(OSError):
                await awaitable
        with pytest.raises(OSError):
            for _ in range(3):
                await loop.sock_sendall(theirs, b"to nobody")

    run(main())


def test_a_socket_closed_behind_the_loop_ends_with_the_loop(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        task = await started(loop.sock_recv(ours, 100))
        ours.close()
        with contextlib.suppress(BrokenPipeError):
            theirs.send(b"last words")
        task.cancel()  # must end it, whatever became of the descriptor
        await cancelled(task)

    run(main())


def test_calls_leave_no_memory_behind(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        counts = []
        for _ in range(6):
            for _ in range(200):
                task = await started(loop.sock_recv(ours, 100))
                await loop.sock_sendall(theirs, b"x")
                assert await task == b"x"
                task = await started(loop.sock_recv(ours, 100))
                task.cancel()
                await cancelled(task)
            counts.append(accounts.allocated_blocks())
        accounts.assert_flat(counts, 200)
        assert loop._counters()["leased_buffers"] == 0

    run(main())


def test_a_socket_closed_under_a_receive_closes_when_that_ends(run: Run, pair: Pair) -> None:
    """epoll forgets a closed descriptor: the call would never end."""
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        task = await started(loop.sock_recv(ours, 100))
        ours.close()
        await asyncio.sleep(0.01)
        theirs.send(b"late")
        assert await task == b"late"
        assert ours.fileno() == -1

    run(main())


def test_a_socket_closed_under_a_send_sends_all(run: Run, pair: Pair) -> None:
    """epoll forgot the descriptor, and the send never ended."""
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        task = await started(loop.sock_sendall(ours, bytes(8 << 20)))
        ours.close()
        got = 0
        while data := await loop.sock_recv(theirs, 1 << 20):
            got += len(data)
        assert got == 8 << 20
        await task
        assert ours.fileno() == -1

    run(main())


def test_a_socket_closed_under_an_accept_ends_it_with_the_next_connection(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            task = await started(loop.sock_accept(listener))
            address = listener.getsockname()
            listener.close()
            await asyncio.sleep(0.01)
            with contextlib.suppress(ConnectionError):
                socket.create_connection(address).close()
            with pytest.raises(OSError):
                await asyncio.wait_for(task, 30)
            assert listener.fileno() == -1

    run(main())


def test_a_cancelled_receive_lets_its_closed_socket_go(run: Run, pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        task = await started(loop.sock_recv_into(ours, bytearray(10)))
        ours.close()
        task.cancel()
        await cancelled(task)
        assert ours.fileno() == -1
        assert theirs.recv(1) == b""

    run(main())


def test_a_forked_child_closes_a_socket_that_its_parent_receives_on(run: Run, pair: Pair) -> None:
    """On epoll it used to stay open in the child for good: no end of file for the peer."""
    ours, theirs = pair

    async def main() -> bytes:
        receive = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(ours, 10))
        await asyncio.sleep(0)
        fd = ours.fileno()
        pid = fork()
        if pid == 0:
            ours.close()
            os._exit(int(os.path.exists(f"/proc/self/fd/{fd}")))
        assert os.waitpid(pid, 0)[1] == 0
        theirs.send(b"parent's")
        return await receive

    assert run(main()) == b"parent's"


def test_a_socket_that_a_transport_owns_is_refused(run: Run, pair: Pair) -> None:
    """Both would read from it: each would get bytes that are the other's."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        owned = transport.get_extra_info("socket")
        calls: list[Any] = [
            lambda: loop.sock_recv(owned, 1),
            lambda: loop.sock_recv(ours, 1),
            lambda: loop.sock_recv_into(ours, bytearray(1)),
            lambda: loop.sock_recvfrom(ours, 1),
            lambda: loop.sock_recvfrom_into(ours, bytearray(1)),
            lambda: loop.sock_sendall(ours, b"x"),
            lambda: loop.sock_sendto(ours, b"x", None),
            lambda: loop.sock_accept(ours),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="is used by transport"):
                await call()
        transport.abort()
        await asyncio.sleep(0.01)

    run(main())
