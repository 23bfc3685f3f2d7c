"""What belongs to one loop's thread raises ringloop.AffinityError elsewhere, or is made safe."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any, Callable, Iterator

import pytest
import ringloop
from harness.extensions import load
from harness.loops import Run
from ringloop import AffinityError

calls = load("bridge_calls")


def elsewhere(function: Callable[[], Any]) -> Any:
    """function()'s value or exception, from another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            found.append(error.with_traceback(None))     # whose frames would keep all

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@contextlib.contextmanager
def running(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The loop runs in a thread of its own for as long."""
    begun = threading.Event()
    loop.call_soon(begun.set)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def refused(answer: Any, words: str) -> None:
    assert isinstance(answer, AffinityError) and isinstance(answer, RuntimeError)
    assert words in str(answer)


def started(work: Any) -> Any:
    work.add_done_callback(lambda _: None)
    return work


@pytest.mark.parametrize("begin", [started, asyncio.ensure_future])
def test_a_cancel_from_another_thread_is_refused(on_host: Run, begin: Callable[[Any], Any]) -> None:
    async def main() -> None:
        work = begin(calls.forever())
        await asyncio.sleep(0)
        refused(elsewhere(work.cancel), "cancel() of a ringloop.Awaitable whose loop runs in")
        assert not work.done() and work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        assert work.cancelled()

    on_host(main())


def test_a_callback_from_another_thread_is_refused(on_host: Run) -> None:
    async def main() -> None:
        work = started(calls.wait(1, "there"))
        refused(elsewhere(lambda: work.add_done_callback(print)), "add_done_callback() of a")
        assert await work == "there"
        refused(elsewhere(lambda: work.add_done_callback(print)), "add_done_callback() of a")

    on_host(main())


def test_an_await_on_another_loop_is_refused(on_host: Run) -> None:
    async def wait(work: Any) -> Any:
        return await work

    def in_new_loop(work: Any) -> Any:
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(wait(work))
        finally:
            loop.close()

    async def main() -> None:
        work = started(calls.wait(20, "there"))
        refused(elsewhere(lambda: in_new_loop(work)), "this ringloop.Awaitable was started on <")
        assert await work == "there"

    on_host(main())


@pytest.mark.parametrize("debug", [True, False])
def test_a_stream_on_another_loop_is_refused(run: Run, debug: bool) -> None:
    async def main() -> None:
        ends = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ends[0])
        for wait in (lambda: reader.read(1), lambda: reader.readexactly(2), reader.readline):
            refused(elsewhere(lambda: asyncio.run(calls.wait_for(wait()))),
                    "this StreamReader belongs to <")
        if debug:
            refused(elsewhere(lambda: writer.write(b"x")), "write() in thread ")
        ends[1].send(b"here")
        assert await reader.read(4) == b"here"
        writer.close()
        ends[1].close()
        await writer.wait_closed()

    run(main(), debug=debug)


def test_what_the_collector_drops_in_another_thread_is_stopped_by_the_loop(on_host: Run) -> None:
    async def wait(work: Any) -> None:
        await work

    async def main() -> None:
        calls.cleaned_up()
        work = calls.careful()
        coroutine = wait(work)
        assert coroutine.send(None) is work          # a task would wait for it now
        assert elsewhere(coroutine.close) is None
        for _ in range(1000):
            if work.done():
                break
            await asyncio.sleep(0.001)
        assert work.cancelled() and calls.cleaned_up() == 1

    on_host(main())


def test_a_loop_that_stands_still_may_be_used_by_any_thread(on_host: Run) -> None:
    loop = on_host.new_loop()

    async def begin() -> Any:
        task = asyncio.ensure_future(calls.forever())
        await asyncio.sleep(0)
        return task

    task = loop.run_until_complete(begin())
    assert elsewhere(task.cancel) is True
    loop.run_until_complete(asyncio.wait([task]))
    assert task.cancelled()
    assert elsewhere(loop.close) is None


def test_a_loop_that_runs_is_not_closed_from_another_thread(loop: Any) -> None:
    with running(loop):
        with pytest.raises(AffinityError, match="Cannot close a running event loop: it runs in "):
            loop.close()
    assert not loop.is_closed()


@pytest.mark.logs_errors        # the task that its loop refused, as on any loop
def test_debug_mode_refuses_what_would_schedule_there(loop: Any) -> None:
    loop.set_debug(True)

    async def nothing() -> None: ...

    ends = socket.socketpair()
    with running(loop):
        work = nothing()
        for call in (lambda: loop.call_soon(print), lambda: loop.call_later(1, print),
                     lambda: loop.call_at(1, print), lambda: loop.create_task(work),
                     lambda: loop.add_reader(ends[0].fileno(), print)):
            with pytest.raises(AffinityError, match="Non-thread-safe operation invoked on an"):
                call()
        work.close()
    for end in ends:
        end.close()


METHODS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("write", (b"x",)), ("writelines", ([b"x"],)), ("write_eof", ()), ("pause_reading", ()),
    ("resume_reading", ()), ("abort", ()), ("close", ()))


@pytest.mark.parametrize("debug", [True, False])
def test_debug_mode_refuses_a_transport_s_use_elsewhere(run: Run, debug: bool) -> None:
    async def main() -> None:
        ends = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ends[0])
        transport = writer.transport
        for name, arguments in METHODS if debug else ():
            refused(elsewhere(lambda: getattr(transport, name)(*arguments)),
                    f"transport.{name}() in thread ")
        assert not transport.is_closing()
        assert elsewhere(transport.get_write_buffer_size) == 0
        if not debug:
            assert elsewhere(lambda: transport.write(b"x")) is None     # nobody looks
        writer.close()
        await writer.wait_closed()
        assert ends[1].recv(9) == (b"" if debug else b"x")
        ends[1].close()

    run(main(), debug=debug)


def test_debug_mode_refuses_a_datagram_transport_s_use_elsewhere(run: Run) -> None:
    async def main() -> None:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
        for name, arguments in (("sendto", (b"x", ("127.0.0.1", 9))), ("pause_reading", ()),
                                ("resume_reading", ()), ("abort", ()), ("close", ())):
            refused(elsewhere(lambda: getattr(transport, name)(*arguments)),
                    f"transport.{name}() in thread ")
        transport.close()
        await asyncio.sleep(0)

    run(main(), debug=True)


def test_a_server_closed_from_another_thread_stops_on_its_own(run: Run) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, sock=socket.create_server(
            ("127.0.0.1", 0)))
        port = server.sockets[0].getsockname()[1]
        assert elsewhere(server.close) is None
        for _ in range(1000):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("still listens")

    run(main())
