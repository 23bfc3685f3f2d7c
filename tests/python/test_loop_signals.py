"""Signals: handlers, Ctrl-C, restoring what was there."""
from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest


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
