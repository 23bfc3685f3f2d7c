"""Scheduling: call_soon, call_soon_threadsafe, handles, contexts, exceptions of callbacks."""
from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import socket
import sys
import threading
import time
import weakref
from typing import Any

import pytest

THREADSAFE_HANDLES = pytest.mark.skipif(sys.version_info < (3, 14),
                                        reason="thread-safe handles are new in 3.14")


def turns(loop: Any, count: int = 1) -> None:
    for _ in range(count):
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_callbacks_run_in_order_of_registration(loop: Any) -> None:
    seen: list[int] = []
    for i in range(5000):
        loop.call_soon(seen.append, i)
    turns(loop)
    assert seen == list(range(5000))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
def test_any_number_of_arguments_arrives(loop: Any, count: int) -> None:
    seen: list[tuple[int, ...]] = []
    loop.call_soon(lambda *args: seen.append(args), *range(count))
    turns(loop)
    assert seen == [tuple(range(count))]


def test_what_a_callback_schedules_waits_for_the_next_turn(loop: Any) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.call_soon(seen.append, "second")
        loop.stop()

    loop.call_soon(first)
    loop.run_forever()
    assert seen == ["first"]
    turns(loop)
    assert seen == ["first", "second"]


def test_stop_before_run_forever_means_one_round(loop: Any) -> None:
    seen: list[int] = []
    loop.call_soon(seen.append, 1)
    loop.stop()
    loop.run_forever()
    assert seen == [1]


def test_a_cancelled_handle_does_not_run(loop: Any) -> None:
    seen: list[int] = []
    handle = loop.call_soon(seen.append, 1)
    handle.cancel()
    handle.cancel()
    assert handle.cancelled()
    turns(loop)
    assert seen == []


def test_a_callback_can_cancel_one_that_is_ready_behind_it(loop: Any) -> None:
    seen: list[int] = []
    handles: list[Any] = []
    loop.call_soon(lambda: handles[0].cancel())
    handles.append(loop.call_soon(seen.append, 1))
    turns(loop)
    assert seen == []


def test_a_callback_can_cancel_its_own_handle(loop: Any) -> None:
    handles: list[Any] = []
    handles.append(loop.call_soon(lambda: handles[0].cancel()))
    turns(loop)
    assert handles[0].cancelled()


def test_handles_pass_isinstance_and_look_like_asyncios(loop: Any) -> None:
    handle, timer = loop.call_soon(print), loop.call_later(60, print)
    assert isinstance(handle, asyncio.Handle) and not isinstance(handle, asyncio.TimerHandle)
    assert isinstance(timer, asyncio.TimerHandle) and isinstance(timer, asyncio.Handle)
    assert repr(handle).startswith("<Handle print") and repr(timer).startswith("<TimerHandle when=")
    assert weakref.ref(timer)() is timer
    handle.cancel()
    timer.cancel()
    assert repr(handle).startswith("<Handle cancelled")


def test_a_context_is_copied_or_taken(loop: Any) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    seen: list[str] = []
    before = variable.set("at the call")
    loop.call_soon(lambda: seen.append(variable.get()))
    given = contextvars.copy_context()
    given.run(variable.set, "given")
    loop.call_soon(lambda: seen.append(variable.get()), context=given)
    loop.call_soon(lambda: seen.append(variable.get()), **{"".join(["con", "text"]): given})
    variable.set("later")
    turns(loop)
    assert seen == ["at the call", "given", "given"]
    variable.reset(before)      # this thread's context would keep the variable


def test_a_wrong_context_is_refused_at_once(loop: Any) -> None:
    with pytest.raises(TypeError, match="contextvars.Context"):
        loop.call_soon(print, context=3)


def test_wrong_arguments_are_named(loop: Any) -> None:
    with pytest.raises(TypeError, match="callback"):
        loop.call_soon()
    with pytest.raises(TypeError, match="'wrong'"):
        loop.call_soon(print, wrong=1)
    with pytest.raises(TypeError, match="delay must not be None"):
        loop.call_later(None, print)
    with pytest.raises(TypeError, match="when must not be None"):
        loop.call_at(None, print)
    with pytest.raises(TypeError, match="multiple values for argument 'callback'"):
        loop.call_soon(print, callback=print)


def test_arguments_may_be_named_as_in_asyncio(loop: Any) -> None:
    seen: list[int] = []
    loop.call_soon(callback=lambda: seen.append(1))
    loop.call_later(delay=0, callback=lambda: seen.append(2))
    loop.call_at(0, callback=lambda: seen.append(3), context=contextvars.copy_context())
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert sorted(seen) == [1, 2, 3]


def test_an_exception_goes_to_the_handler_and_the_rest_runs(loop: Any) -> None:
    reports: list[dict[str, Any]] = []
    seen: list[int] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    error = ZeroDivisionError("expected")

    def fail(argument: int) -> None:
        raise error

    handle = loop.call_soon(fail, 7)
    loop.call_soon(seen.append, 1)
    turns(loop)
    assert seen == [1]
    assert reports[0]["exception"] is error and reports[0]["handle"] is handle
    assert "fail(" in reports[0]["message"]


def raising(kind: Any, name: str) -> Any:
    """A protocol whose method `name` raises what is kept as its `error`."""

    def fail(self: Any, *_: Any) -> None:
        raise self.error

    return type("Raising", (kind,), {name: fail, "error": ZeroDivisionError(name)})()


@pytest.mark.parametrize("how", ["call_soon", "call_later", "add_reader", "done_callback"])
def test_an_exception_handler_is_called_as_in_an_except_clause_for_callbacks(
    loop: Any, how: str
) -> None:
    """logger.exception() and sys.exc_info() of a handler used to find nothing."""
    handled: list[Any] = []
    loop.set_exception_handler(lambda _, context: handled.append(
        (context["exception"], sys.exc_info()[1])))
    error = ZeroDivisionError("expected")
    here, there = socket.socketpair()

    def fail(*_: Any) -> None:
        loop.remove_reader(here)
        loop.call_soon(loop.stop)
        raise error

    with here, there:
        if how == "call_soon":
            loop.call_soon(fail)
        elif how == "call_later":
            loop.call_later(0, fail)
        elif how == "add_reader":
            loop.add_reader(here, fail)
            there.send(b"x")
        else:
            future = loop.create_future()
            future.add_done_callback(fail)
            future.set_result(None)
        try:
            raise KeyError("around the run")
        except KeyError as around:
            loop.run_forever()
            assert sys.exc_info()[1] is around
    assert handled == [(error, error)] and sys.exc_info()[1] is None


@pytest.mark.parametrize("name", ["connection_made", "data_received", "eof_received", "get_buffer",
                                  "connection_lost", "pause_writing", "datagram_received"])
def test_an_exception_handler_is_called_as_in_an_except_clause_for_protocols(
    loop: Any, name: str
) -> None:
    handled: list[Any] = []
    loop.set_exception_handler(lambda _, context: handled.append(
        (context["exception"], sys.exc_info()[1])))
    protocol = raising({"get_buffer": asyncio.BufferedProtocol,
                        "datagram_received": asyncio.DatagramProtocol}.get(name, asyncio.Protocol),
                       name)
    kind = socket.SOCK_DGRAM if name == "datagram_received" else socket.SOCK_STREAM
    here, there = socket.socketpair(socket.AF_UNIX, kind)

    async def main() -> None:
        if kind == socket.SOCK_DGRAM:
            transport, _ = await loop.create_datagram_endpoint(lambda: protocol, sock=here)
        else:
            transport, _ = await loop.create_connection(lambda: protocol, sock=here)
        if name == "pause_writing":
            transport.write(bytes(10_000_000))
            transport.abort()
        if name == "connection_lost":
            transport.abort()
        if name == "eof_received":
            there.shutdown(socket.SHUT_WR)
        else:
            there.send(b"x")
        while not handled:
            await asyncio.sleep(0)
        transport.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with there:
        loop.run_until_complete(main())
    assert handled == [(protocol.error, protocol.error)]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exception_that_ends_the_program_leaves_the_loop_usable(loop: Any, kind: Any) -> None:
    seen: list[int] = []

    def leave() -> None:
        raise kind(3)

    loop.call_soon(leave)
    loop.call_soon(seen.append, 1)
    with pytest.raises(kind):
        loop.run_forever()
    assert not loop.is_running()
    turns(loop)
    assert seen == [1]


def test_the_clock_of_a_closed_loop_goes_on(loop: Any) -> None:
    before = loop.time()
    loop.close()
    assert before <= loop.time() < before + 3600


def test_every_scheduling_call_of_a_closed_loop_raises(loop: Any) -> None:
    loop.close()
    loop.close()
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_at(1, print),
        lambda: loop.run_forever(),
        lambda: loop.add_reader(0, print),
    ):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call()


def test_call_soon_threadsafe_wakes_a_sleeping_loop(loop: Any) -> None:
    rounds = 300
    answered = threading.Semaphore(0)
    left = rounds

    def answer() -> None:
        nonlocal left
        left -= 1
        answered.release()
        if left == 0:
            loop.stop()

    def ask() -> None:
        for _ in range(rounds):
            loop.call_soon_threadsafe(answer)
            answered.acquire()

    thread = threading.Thread(target=ask)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert left == 0


@THREADSAFE_HANDLES
def test_handles_of_other_threads_are_of_asyncios_newer_class(loop: Any) -> None:
    handle = loop.call_soon_threadsafe(print)
    assert isinstance(handle, asyncio.events._ThreadSafeHandle)  # type: ignore[attr-defined]
    assert repr(handle).startswith("<_ThreadSafeHandle print")
    handle.cancel()
    assert repr(handle).startswith("<_ThreadSafeHandle cancelled")
    turns(loop)


@THREADSAFE_HANDLES
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("method", ["cancel", "cancelled"])
def test_another_thread_waits_for_the_callback_that_it_cancels(
        loop: Any, method: str, debug: bool) -> None:
    loop.set_debug(debug)
    loop.slow_callback_duration = 60
    begun, seen = threading.Event(), []

    def callback() -> None:
        begun.set()
        # tidy-allow: banned because it is this callback's duration that the thread waits for
        time.sleep(0.1)
        seen.append("callback")

    def look() -> None:
        handle = loop.call_soon_threadsafe(callback)
        begun.wait()
        answer = getattr(handle, method)()
        seen.append(answer)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=look)
    thread.start()
    loop.run_forever()
    thread.join()
    assert seen == ["callback", None if method == "cancel" else False]


@THREADSAFE_HANDLES
def test_a_callback_from_another_thread_can_cancel_its_own_handle(loop: Any) -> None:
    handles: list[Any] = []
    handles.append(loop.call_soon_threadsafe(lambda: handles[0].cancel()))
    turns(loop)
    assert handles[0].cancelled()


@THREADSAFE_HANDLES
def test_a_signal_ends_the_wait_for_another_threads_callback(loop: Any) -> None:
    """The loop runs in a thread, its callback waits for the main thread: only a signal helps."""
    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    begun, end = threading.Event(), threading.Event()

    def callback() -> None:
        begun.set()
        end.wait()
        loop.stop()

    main = threading.get_ident()
    previous = signal.signal(signal.SIGUSR1, enough)
    thread = threading.Thread(target=loop.run_forever)
    handle = loop.call_soon_threadsafe(callback)
    try:
        thread.start()
        begun.wait()
        with pytest.raises(Enough):
            killer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
            killer.start()
            handle.cancelled()
    finally:
        signal.signal(signal.SIGUSR1, previous)
        end.set()
        thread.join()
        killer.join()


def test_dropping_a_loop_frees_what_it_had_queued(backend: str) -> None:
    import ringloop

    class Payload:
        pass

    payload = Payload()
    alive = weakref.ref(payload)
    made = ringloop.new_event_loop(backend=backend)
    made.call_soon(lambda p: None, payload)
    made.call_later(1000, lambda p, l: None, payload, made)  # a cycle through the loop
    made.close()
    del payload, made
    gc.collect()
    assert alive() is None


def test_a_handle_outlives_its_loop(backend: str) -> None:
    import ringloop

    made = ringloop.new_event_loop(backend=backend)
    handles = [made.call_soon(print), made.call_later(5, print)]
    made.close()
    del made
    gc.collect()
    for handle in handles:
        handle.cancel()
        assert handle.cancelled()


def test_debug_mode_refuses_coroutines_and_foreign_threads(loop: Any) -> None:
    loop.set_debug(True)

    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="coroutines cannot be used with call_soon"):
        loop.call_soon(coroutine)
    with pytest.raises(TypeError, match="a callable object was expected"):
        loop.call_soon("text")
    errors: list[BaseException] = []

    def intrude() -> None:
        try:
            loop.call_soon(print)
        except RuntimeError as error:
            errors.append(error)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=intrude)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert "Non-thread-safe operation" in str(errors[0])


def test_debug_mode_reports_slow_callbacks_and_sources(loop: Any, caplog: Any) -> None:
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    handle = loop.call_soon(lambda: None)
    assert "test_loop_calls" in handle._source_traceback[-1].filename
    with caplog.at_level("WARNING", logger="asyncio"):
        turns(loop)
    assert "Executing <Handle" in caplog.text and "took" in caplog.text


def test_a_running_loop_refuses_a_second_run_without_side_effects(loop: Any) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_forever()
        other = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_until_complete(other)
        other.close()
        assert asyncio.get_running_loop() is loop and loop.is_running()
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="running"):
            loop.close()

    loop.run_until_complete(main())
