"""VirtualClock: time that a test moves, for new_event_loop(clock=…).

It belongs to the thread of the loop that uses it. Nothing here waits or fails, but advance() of a
negative time (ValueError).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What new_event_loop(clock=…) takes."""

    def time(self) -> float:
        """Seconds; what loop.time() gives."""

    def advance(self, seconds: float) -> None:
        """Moves time() on by that much: the loop calls it when it would sleep until then."""


class VirtualClock:
    """A clock for tests: every timer of the loop goes by it, and sleeping takes no time.

        clock = ringloop.VirtualClock()
        loop = ringloop.new_event_loop(clock=clock)
        loop.run_until_complete(asyncio.sleep(3600))     # microseconds
        assert clock.time() == 3600

    It moves when the loop has nothing to run and timers are pending: then it jumps to the first
    deadline. Tests may move it themselves with advance(); timers that are due then run in the next
    turn, in order.

    What is real stays real. While a call in an executor, a kernel or a file operation is in flight,
    the clock stands still until it has ended. While sockets, pipes or watched descriptors wait, the
    kernel gets `settle` real seconds for each jump to bring something, and what it brings runs
    first: enough for peers in the same process; for slower ones (another machine, a child) raise
    settle, or their time-outs come first. Threads that use call_soon_threadsafe() outside of
    executors are not waited for. Native C++ timers, time.sleep() and processes keep real time.
    """

    def __init__(self, start: float = 0.0, *, settle: float = 0.01) -> None:
        self.settle = settle
        self._now_ns = round(start * 1e9)  # whole: a million small steps do not drift

    def time(self) -> float:
        """Seconds since the clock's zero."""
        return self._now_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Moves the clock forward."""
        if not seconds >= 0:
            raise ValueError(f"a clock goes forward only, not by {seconds!r} seconds")
        self._now_ns += round(seconds * 1e9)

    def __repr__(self) -> str:
        return f"<VirtualClock {self.time()} s>"


def clock_of(wish: object) -> Clock | None:
    """Of the option clock: None, "virtual", or a clock. TypeError for others."""
    if wish is None:
        return None
    if wish == "virtual":
        return VirtualClock()
    if isinstance(wish, Clock):
        return wish
    raise TypeError(
        f'clock must be "virtual" or an object with time() and advance(seconds), not {wish!r}'
    )
