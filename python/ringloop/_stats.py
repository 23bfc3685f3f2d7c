"""stats(): what this process's ringloop has and has done, as plain numbers.

It only reads counters that are kept anyway, so it may be called as often as a monitor likes.
Thread: any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _native, memory


@dataclass(frozen=True)
class ExportStats:
    """One native function that an extension module exports, and its calls so far.

    name has the class of what is in one: "Client.get". policy is the GIL's: hold, release, auto.
    Coroutines are counted by the part that runs inside Python's own await, up to their first wait;
    plain functions of py::fast only where they release the GIL. Times are in seconds: held with
    the GIL (0 for the policy hold, which looks at no clock), released without it, waited until it
    was there again.
    """

    module: str
    name: str
    policy: str
    calls: int
    held_s: float
    released_s: float
    waited_s: float


@dataclass(frozen=True)
class LoopStats:
    """One event loop: ringloop's own (own is True), or a foreign one that native work runs under.

    loop is its repr(). Counts since it was made: operations submitted and their completions, system
    calls to submit or to wait (enters), sleeps, posts from other threads and workers that it ran,
    eventfd writes that woke it (wake_writes), and what should stay 0: overflows, starved, stale, as
    docs/debugging.md has them. Now: operations, files and jobs in flight (files and jobs of
    awaitables; the loop's own watch of signals is an operation), receive buffers leased, of
    buffer_bytes each.
    """

    loop: str
    own: bool
    backend: str
    submitted: int
    completions: int
    enters: int
    sleeps: int
    wake_writes: int
    overflows: int
    starved: int
    stale: int
    posts: int
    jobs_in_flight: int
    files_in_flight: int
    operations_in_flight: int
    buffers_leased: int
    buffer_bytes: int


@dataclass(frozen=True)
class Stats:
    """What stats() gives. alive: ringloop's native objects by kind, in the whole process; awaits
    that are pending are also in awaitables. gil: one entry for each exported function."""

    alive: dict[str, int]
    gil: tuple[ExportStats, ...]
    loops: tuple[LoopStats, ...]
    memory: memory.MemoryStats

    @property
    def operations_in_flight(self) -> int:
        return sum(each.operations_in_flight for each in self.loops)

    @property
    def jobs_in_flight(self) -> int:
        return sum(each.jobs_in_flight for each in self.loops)

    @property
    def posts(self) -> int:
        return sum(each.posts for each in self.loops)

    @property
    def buffers_leased(self) -> int:
        return sum(each.buffers_leased for each in self.loops)

    @property
    def buffer_bytes_leased(self) -> int:
        return sum(each.buffers_leased * each.buffer_bytes for each in self.loops)


def stats() -> Stats:
    """A snapshot of this process. Other threads' loops go on meanwhile: each number was true, not
    all at the same instant."""
    alive = dict(_native.ledger())
    for of_loops in ("operations", "buffers"):  # of ringloop's own loops only: see loops
        del alive[of_loops]
    return Stats(
        alive=alive,
        gil=tuple(_export(facts) for facts in _native.export_statistics()),
        loops=tuple(
            LoopStats(**{**facts, "loop": repr(facts["loop"])})
            for facts in _native.loop_statistics()
        ),
        memory=memory.stats(),
    )


def _export(facts: dict[str, Any]) -> ExportStats:
    return ExportStats(
        module=facts["module"],
        name=facts["name"],
        policy=facts["policy"],
        calls=facts["calls"],
        held_s=facts["held_ns"] / 1e9,
        released_s=facts["released_ns"] / 1e9,
        waited_s=facts["waited_ns"] / 1e9,
    )
