"""A time limit for each test. A test that hangs fails with the traces of all its threads.

First SIGALRM raises in the main thread (a loop that waits must let signal handlers run). Where
that has no effect, faulthandler ends the process: a hang never takes the whole run's time.
"""
from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from types import FrameType
from typing import Iterator

LIMIT_S = 60.0
SLOWDOWN = float(os.environ.get("RINGLOOP_TEST_SLOWDOWN", "1"))


class TestTooSlow(BaseException):
    """Not an Exception: neither a test nor a loop may swallow it."""

    __test__ = False


@contextlib.contextmanager
def time_limit(seconds: float, traces: int, name: str) -> Iterator[None]:
    """`traces`: the descriptor that traces are written to, as pytest replaces number 2."""
    seconds *= SLOWDOWN

    def expired(number: int, frame: FrameType | None) -> None:
        os.write(traces, f"\n{name}: no end after {seconds:.0f} s\n".encode())
        faulthandler.dump_traceback(file=traces, all_threads=True)
        raise TestTooSlow(f"no end after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + 15 * SLOWDOWN, exit=True, file=traces)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
