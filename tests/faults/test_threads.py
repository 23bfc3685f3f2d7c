"""A loop made in one thread and run in another; two loops in two threads."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Callable, TypeVar

import pytest

from harness import loops

T = TypeVar("T")


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def elsewhere(call: Callable[[], T]) -> T:
    """Runs it in a thread of its own, which ends before this returns."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


async def round_trip(address: tuple[str, int], data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    answer = await reader.readexactly(len(data))
    writer.close()
    await writer.wait_closed()
    return answer


async def close(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


def test_a_loop_with_a_bound_server_is_run_in_another_thread(
        loop: asyncio.AbstractEventLoop) -> None:
    server = loop.run_until_complete(loop.create_server(Echo, "127.0.0.1", 0))
    address = server.sockets[0].getsockname()
    assert elsewhere(lambda: loop.run_until_complete(round_trip(address, b"there"))) == b"there"
    assert loop.run_until_complete(round_trip(address, b"back")) == b"back"
    loop.run_until_complete(close(server))


def test_connections_survive_a_move_between_threads(loop: asyncio.AbstractEventLoop) -> None:
    server = loop.run_until_complete(loop.create_server(Echo, "127.0.0.1", 0))
    address = server.sockets[0].getsockname()
    reader, writer = loop.run_until_complete(asyncio.open_connection(*address))

    async def once(number: int) -> bytes:
        writer.write(b"%d" % number)
        return await reader.readexactly(1)

    for number in range(8):
        call = (lambda: loop.run_until_complete(once(number)))
        assert (call() if number % 2 else elsewhere(call)) == b"%d" % number
    writer.close()
    loop.run_until_complete(writer.wait_closed())
    loop.run_until_complete(close(server))


def test_a_thread_that_made_the_loop_may_be_gone(run: loops.Run) -> None:
    made = elsewhere(run.new_loop)
    try:
        assert made.run_until_complete(asyncio.sleep(0.001, "ran")) == "ran"
    finally:
        made.close()


def test_two_loops_in_two_threads_talk_over_tcp(run: loops.Run) -> None:
    ready: concurrent.futures.Future[tuple[tuple[str, int], asyncio.AbstractEventLoop]] \
        = concurrent.futures.Future()
    done = asyncio.Event()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "127.0.0.1", 0)
        ready.set_result((server.sockets[0].getsockname(), loop))
        await done.wait()
        await close(server)

    thread = threading.Thread(target=lambda: run(serve()))
    thread.start()
    address, other = ready.result()

    async def main() -> list[bytes]:
        return await asyncio.gather(*(round_trip(address, b"%03d" % n) for n in range(100)))

    try:
        assert run(main()) == [b"%03d" % n for n in range(100)]
    finally:
        other.call_soon_threadsafe(done.set)
        thread.join()


def test_calls_from_many_threads_all_arrive_in_their_threads_order(run: loops.Run) -> None:
    threads, calls = 4, 5_000

    async def main() -> list[list[int]]:
        loop = asyncio.get_running_loop()
        seen: list[list[int]] = [[] for _ in range(threads)]
        finished = asyncio.Event()
        left = threads

        def end() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                finished.set()

        def call(number: int) -> None:
            for value in range(calls):
                loop.call_soon_threadsafe(seen[number].append, value)
            loop.call_soon_threadsafe(end)

        workers = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        await finished.wait()
        for worker in workers:
            worker.join()
        return seen

    assert run(main()) == [list(range(calls))] * threads


def test_running_a_loop_that_runs_elsewhere_is_refused(run: loops.Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            with pytest.raises(RuntimeError, match="running"):
                loop.run_forever()

        await loop.run_in_executor(None, again)

    run(main())
