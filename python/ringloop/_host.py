"""run() of native programs that host Python (<ringloop/py/run.hpp>): asyncio's Runner around it.

The thread is the program's own. Where it is Python's main one, SIGINT and SIGTERM stop the app.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable
from typing import Any

from .loop import EventLoop, new_event_loop


def run(app: Awaitable[None], arguments: list[str] | None, debug: bool, backend: str) -> int | None:
    """Runs the app to its end, and all that it has left; the code of a SystemExit, if there was
    one. What the app ended with is on the native side. `arguments`: None leaves sys.argv, where
    Python is somebody else's."""
    if arguments is not None:
        sys.argv = arguments or [""]
    try:
        _take_interrupts()
        with asyncio.Runner(
            debug=debug or None, loop_factory=lambda: new_event_loop(backend=backend or None)
        ) as runner:
            runner.run(_main(app))
    except (asyncio.CancelledError, KeyboardInterrupt):
        pass  # a signal, or something of Python's, has stopped the app
    except SystemExit as exit:
        return code_of(exit)
    finally:
        app.close()  # type: ignore[attr-defined]  # where it did not even begin
    return None


async def _main(app: Awaitable[None]) -> None:
    loop: Any = asyncio.get_running_loop()
    added = _stop_by_sigterm(loop, asyncio.current_task())
    try:
        await app
    finally:
        if added:
            loop.remove_signal_handler(signal.SIGTERM)


def _take_interrupts() -> None:
    # A run before this one has given SIGINT back, which Python has not heard of.
    if threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop_by_sigterm(loop: EventLoop, task: asyncio.Task[None] | None) -> bool:
    if threading.current_thread() is not threading.main_thread() or task is None:
        return False
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return False

    def stop() -> None:
        loop.remove_signal_handler(signal.SIGTERM)  # a second one ends the process
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    return True


def code_of(exit: SystemExit) -> int:
    """As Python's own end has it."""
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    sys.stderr.write(f"{exit.code}\n")
    return 1
