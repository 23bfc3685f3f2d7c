"""Signals: handlers, Ctrl-C, restoring what was there."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import socket
import threading
from typing import Any, Iterator

import pytest

from harness.forks import fork
from harness.loops import Run


def test_a_handler_runs_on_the_loop_with_its_arguments(loop: Any) -> None:
    seen: list[int] = []
    loop.add_signal_handler(signal.SIGUSR1, lambda x: (seen.append(x), loop.stop()), 7)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    assert seen == [7]
    assert loop.remove_signal_handler(signal.SIGUSR1) is True
    assert loop.remove_signal_handler(signal.SIGUSR1) is False
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_a_sleeping_loop_is_woken_by_a_signal(loop: Any) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    loop.run_forever()
    timer.join()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_signal_between_two_runs_is_delivered(loop: Any) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_forever()
    loop.remove_signal_handler(signal.SIGUSR1)


def test_ctrl_c_cancels_the_main_task(run: Any) -> None:
    cancelled = False

    async def main() -> None:
        nonlocal cancelled
        asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled = True
            raise

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert cancelled


def test_ctrl_c_interrupts_a_bare_run_forever(loop: Any) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    timer.join()


def test_the_wakeup_descriptor_is_put_back(loop: Any) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    try:
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert signal.set_wakeup_fd(writing) == writing
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def test_what_cannot_be_handled_is_refused(loop: Any) -> None:
    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="coroutines"):
        loop.add_signal_handler(signal.SIGUSR1, coroutine)
    with pytest.raises(RuntimeError, match="cannot be caught"):
        loop.add_signal_handler(signal.SIGKILL, print)
    with pytest.raises(ValueError, match="invalid signal number"):
        loop.add_signal_handler(10_000, print)
    with pytest.raises(TypeError, match="must be an int"):
        loop.add_signal_handler("SIGINT", print)
    errors: list[BaseException] = []

    def elsewhere() -> None:
        try:
            loop.add_signal_handler(signal.SIGUSR1, print)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert errors


def test_closing_the_loop_removes_its_handlers(loop: Any) -> None:
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


@contextlib.contextmanager
def foreign_wakeup() -> Iterator[tuple[int, int]]:
    """A wake-up descriptor of somebody else's: (reading end, writing end) of a pipe."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing)
    try:
        yield reading, writing
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def current_wakeup() -> int:
    found = signal.set_wakeup_fd(-1)
    if found != -1:
        signal.set_wakeup_fd(found)
    return found


def one_turn(loop: Any) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def deliver(loop: Any) -> None:
    """Runs until a signal that has arrived is read, and its handler called."""
    for _ in range(3):
        one_turn(loop)


def test_a_handler_outside_a_run_gives_the_wakeup_descriptor_back(loop: Any) -> None:
    """Used to set none: the one of a program around the loop was lost."""
    with foreign_wakeup() as (_, writing):
        loop.add_signal_handler(signal.SIGUSR1, print)
        assert current_wakeup() != writing
        one_turn(loop)
        assert current_wakeup() != writing      # the handler stays, so ours does
        loop.remove_signal_handler(signal.SIGUSR1)
        assert current_wakeup() == writing


def test_a_wakeup_descriptor_from_before_gets_what_arrives_in_a_run(loop: Any) -> None:
    """Used to be lost: code around the loop that waits for signals never heard of them."""
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with foreign_wakeup() as (reading, _):
            loop.call_soon(signal.raise_signal, signal.SIGUSR1)
            loop.call_soon(loop.stop)
            loop.run_forever()
            assert os.read(reading, 10) == bytes([signal.SIGUSR1])
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_wakeup_descriptor_from_before_that_lost_its_reader_ends_no_run(loop: Any) -> None:
    """BrokenPipeError used to come out of run_forever(), and the descriptor was not put back."""
    handler = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        os.close(reading)
        loop.call_soon(signal.raise_signal, signal.SIGUSR1)
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert current_wakeup() == writing
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGUSR1, handler)
        os.close(writing)


def test_a_wakeup_descriptor_that_is_set_in_a_run_stays(loop: Any) -> None:
    """Used to be overwritten at the end of the run."""
    with foreign_wakeup() as (_, writing):
        signal.set_wakeup_fd(-1)
        loop.call_soon(signal.set_wakeup_fd, writing)
        one_turn(loop)
        assert current_wakeup() == writing


def test_a_wakeup_descriptor_that_was_closed_in_a_run_is_not_set_again(loop: Any) -> None:
    """Its number may be a stranger's socket by then, which would be sent signal numbers."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing)
    left, right = socket.socketpair()
    right.setblocking(False)
    try:
        loop.call_soon(os.dup2, right.fileno(), writing)
        one_turn(loop)
        assert current_wakeup() == -1
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
        left.close()
        right.close()


def test_a_signal_of_another_loop_is_delivered_at_that_loops_next_run(run: Run) -> None:
    """Used to be lost: the loop that ran had no handler for it."""
    seen: list[str] = []
    one, other = run.new_loop(), run.new_loop()
    try:
        one.add_signal_handler(signal.SIGUSR1, seen.append, "one")
        other.add_signal_handler(signal.SIGUSR2, seen.append, "other")
        other.call_soon(signal.raise_signal, signal.SIGUSR1)
        deliver(other)
        assert not seen
        deliver(one)
        assert seen == ["one"]
        one.call_soon(signal.raise_signal, signal.SIGUSR2)
        deliver(one)
        deliver(other)
        assert seen == ["one", "other"]
    finally:
        one.close()
        other.close()
    assert current_wakeup() == -1


def test_a_signal_that_another_loop_took_over_stays_that_loops(run: Run) -> None:
    seen: list[str] = []
    first, second = run.new_loop(), run.new_loop()
    try:
        first.add_signal_handler(signal.SIGUSR1, seen.append, "first")
        second.add_signal_handler(signal.SIGUSR1, seen.append, "second")
        first.close()
        second.call_soon(signal.raise_signal, signal.SIGUSR1)
        deliver(second)
        assert seen == ["second"]
    finally:
        first.close()
        second.close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_each_of_10_000_signals_calls_the_handler(loop: Any) -> None:
    """Used to lose all behind the first 278, another signal's as well."""
    count = 0
    done = 0

    def arrived() -> None:
        nonlocal count
        count += 1

    def last() -> None:
        nonlocal done
        done += 1
        loop.call_soon(loop.stop)

    def storm() -> None:
        for _ in range(10_000):
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)

    loop.add_signal_handler(signal.SIGUSR1, arrived)
    loop.add_signal_handler(signal.SIGUSR2, last)
    loop.call_soon(storm)
    loop.run_forever()
    assert (count, done) == (10_000, 1)


def test_a_storm_from_another_thread_ends_with_its_last_signal(loop: Any) -> None:
    count = 0

    def arrived() -> None:
        nonlocal count
        count += 1

    def storm() -> None:
        for _ in range(10_000):
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)

    loop.add_signal_handler(signal.SIGUSR1, arrived)
    loop.add_signal_handler(signal.SIGUSR2, lambda: loop.call_later(0, loop.stop))
    thread = threading.Thread(target=storm)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    assert 1 <= count <= 10_000     # the kernel takes two that are pending for one


def test_handlers_of_the_signal_module_run_while_the_loop_sleeps(loop: Any) -> None:
    before = signal.signal(signal.SIGUSR1, lambda number, frame: loop.stop())
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        loop.call_later(50, loop.stop)
        begin = loop.time()
        loop.run_forever()
        assert loop.time() - begin < 50
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_runs_in_the_context_of_its_making_and_its_exception_is_reported(
    loop: Any
) -> None:
    variable = contextvars.ContextVar("variable", default="outside")
    reports: list[str] = []

    def handler() -> None:
        raise ZeroDivisionError(variable.get())

    def add() -> None:
        variable.set("inside")
        loop.add_signal_handler(signal.SIGUSR1, handler)

    loop.set_exception_handler(lambda _, context: (reports.append(str(context["exception"])),
                                                   loop.stop()))
    contextvars.copy_context().run(add)
    loop.call_soon(signal.raise_signal, signal.SIGUSR1)
    loop.run_forever()
    assert reports == ["inside"]


def test_a_handler_is_replaced_and_may_remove_itself(loop: Any) -> None:
    seen: list[str] = []

    def once() -> None:
        seen.append("new")
        assert loop.remove_signal_handler(signal.SIGINT)
        loop.stop()

    loop.add_signal_handler(signal.SIGINT, seen.append, "old")
    loop.add_signal_handler(signal.SIGINT, once)
    loop.call_soon(signal.raise_signal, signal.SIGINT)
    loop.run_forever()
    assert seen == ["new"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    loop.call_soon(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    one_turn(loop)      # usable again


def test_signals_of_a_forked_child_do_not_reach_the_parents_handlers(loop: Any) -> None:
    """On CPython 3.11 they used to: the child had inherited the wake-up descriptor."""
    seen: list[str] = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, "parent")

    statuses: list[int] = []

    def signal_in_a_child() -> None:
        pid = fork()
        if pid == 0:
            signal.raise_signal(signal.SIGUSR1)
            os._exit(0)
        statuses.append(os.waitpid(pid, 0)[1])

    loop.call_soon(signal_in_a_child)
    deliver(loop)
    assert statuses == [0] and not seen
    loop.call_soon(signal.raise_signal, signal.SIGUSR1)
    deliver(loop)
    assert seen == ["parent"]


def test_a_loop_with_handlers_that_another_thread_closes_is_closed(run: Run) -> None:
    """Used to stay open for ever: restoring the default failed first."""
    loop: Any = run.new_loop()
    loop.add_signal_handler(signal.SIGUSR1, print)
    loop.remove_signal_handler(signal.SIGUSR1)
    loop.add_signal_handler(signal.SIGUSR1, print)
    errors: list[str] = []

    def close() -> None:
        try:
            loop.close()
        except ValueError as error:
            errors.append(str(error))

    wakeup = current_wakeup()
    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert errors and "main thread" in errors[0]
    assert loop.is_closed()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert current_wakeup() == wakeup       # still a pipe of the loop's, not a stranger's file
    signal.set_wakeup_fd(-1)
    os.close(wakeup)


def test_a_loop_in_another_thread_leaves_signals_alone(run: Run) -> None:
    async def main() -> str:
        with pytest.raises(RuntimeError, match="main thread"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
        return "ran"

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(run(main())))
    thread.start()
    thread.join()
    assert found == ["ran"]
    assert current_wakeup() == -1


def test_asyncios_runner_turns_the_second_ctrl_c_into_an_exception_at_once(run: Run) -> None:
    steps: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            steps.append("cancelled")
            loop.call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        run(main())
    assert steps == ["cancelled"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_for_sigchld_may_be_added(loop: Any) -> None:
    seen: list[str] = []
    loop.add_signal_handler(signal.SIGCHLD, seen.append, "child")
    loop.call_soon(signal.raise_signal, signal.SIGCHLD)
    deliver(loop)
    assert seen == ["child"]


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_what_a_signals_handler_raises_ends_an_idle_run(run: Run, kind: type) -> None:
    """What pytest-timeout and the like do. On the ring it was logged, and the run went on."""
    def on_alarm(number: int, frame: object) -> None:
        raise kind("time is up")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(kind, match="time is up"):
            run(asyncio.sleep(30))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
