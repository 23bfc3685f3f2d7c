"""./dev soak: many lives of a loop, then mixed traffic on one, on each backend, and what is left.

A life makes a loop, runs each kind of traffic once, and closes it. Mixed traffic is rounds of a
second: some tasks at a time, of random kinds, a third of them cancelled at a random moment; between
rounds the loop is idle. Afterwards descriptors, threads, child processes and the native ledger must
be what they were behind the first lives, and neither allocated blocks nor anonymous memory may grow
(slope.py). Exit code 1 and a line for each thing that leaked otherwise.

`--leak WHAT` leaks one of it each life and round, for a look at how that is told.
"""
from __future__ import annotations

import argparse
import array
import asyncio
import collections
import contextlib
import dataclasses
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "python")]
sys.dont_write_bytecode = True

import ringloop                                         # noqa: E402

from harness import accounts, limits, loops             # noqa: E402
from soak import memory, traffic                        # noqa: E402
from soak.slope import judge                            # noqa: E402

WORKERS = 16
ROUND_S = 1.0
CANCELLED = 1 / 3       # of the pieces of mixed traffic
FIRST_LIVES = 5         # what they leave is there for good: caches, pools, libraries
PIECE_S = 60.0          # a piece of traffic that takes longer hangs
STALL_S = 120.0         # a life, or what follows on the last round, too

# A life and a round may not leave this many blocks and KiB on average, nor a phase this many. What
# grows without a leak: heaps, and under mixed traffic the native stocks of freed objects, 640 at
# most, which fill up to the most that were ever alive at once.
BLOCKS = {"bound": 0.2, "drift": 60.0}
KIB = {"bound": 2.0, "drift": 3_000.0}
ROUND_BLOCKS = {"bound": 2.0, "drift": 700.0}
ROUND_KIB = {"bound": 20.0, "drift": 6_000.0}


class Leak(Exception):
    """A sentence: what was left."""


@dataclasses.dataclass
class Row:
    """A line of the closing table."""

    phase: str
    measure: str
    value: str
    leaks: bool

    def __str__(self) -> str:
        return f"{self.phase:<14} {self.measure:<26} {self.value:<44} " \
               f"{'LEAKS' if self.leaks else 'ok'}"


class Samples:
    """Allocated blocks and anonymous memory, taken where nothing runs."""

    def __init__(self, blocks: dict[str, float], kib: dict[str, float]) -> None:
        self._bounds = {"allocated blocks": blocks, "anonymous KiB": kib}
        # Arrays: a list of numbers is an object more with each of them.
        self._taken = {name: array.array("d") for name in self._bounds}

    def take(self) -> None:
        accounts.settle()
        self._taken["allocated blocks"].append(sys.getallocatedblocks())
        self._taken["anonymous KiB"].append(memory.anonymous_kib())

    def rows(self, phase: str, unit: str) -> Iterator[Row]:
        for name, samples in self._taken.items():
            verdict = judge(samples, **self._bounds[name])
            first, last = (samples[0], samples[-1]) if samples else (0, 0)
            yield Row(phase, name, f"{first:,.0f} to {last:,.0f}: {verdict.slope:+.2f} a {unit}, "
                                   f"bound {verdict.bound:.2f}", verdict.leaks)


def children() -> int:
    """Child processes, zombies too; the judge's own, of --leak, are meant to be found."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += len((task / "children").read_text().split())
    return found


class Equality:
    """What must be the same at the end as it was after the first lives."""

    def __init__(self) -> None:
        accounts.settle()
        self._account, self._children = accounts.take(), children()

    def rows(self, phase: str) -> Iterator[Row]:
        left = accounts.settled_difference(self._account)
        now = accounts.take()
        for measure, count in (("descriptors", len(now.descriptors)),
                               ("threads", sum(now.threads.values()))):
            wrong = [each for each in left if each.startswith(measure[:-1]) or
                     measure == "threads" and "thread(s)" in each]
            told = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if wrong[3:] else "")
            yield Row(phase, measure, told or f"{count}, equal", bool(wrong))
        found = children()
        yield Row(phase, "child processes", f"{self._children} to {found}",
                  found != self._children)
        for name, count in now.native.items():
            before = self._account.native.get(name, 0)
            if name in ("operations", "buffers") or count != before:
                yield Row(phase, f"native {name}", f"{before} to {count}", count != before)


# ---- the two phases

async def life(source: random.Random) -> None:
    async with traffic.ground() as ground:
        kinds = list(traffic.KINDS.values())
        source.shuffle(kinds)
        await asyncio.gather(*(kind(ground, source) for kind in kinds))
    if ground.reports:
        raise Leak(f"the loop reported: {ground.reports[0]}")


def lives(new_loop: loops.Factory, count: int, source: random.Random, leak: Callable[[], None]
          ) -> list[Row]:
    samples = Samples(BLOCKS, KIB)
    begin, before = time.monotonic(), None
    for number in range(FIRST_LIVES + count):
        if number == FIRST_LIVES:
            begin, before = time.monotonic(), Equality()
        with limits.time_limit(STALL_S, 2, f"life {number}"):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(life(source))
        if number >= FIRST_LIVES:
            leak()
            samples.take()
    assert before is not None
    phase = f"{count} lives"
    return [Row(phase, "seconds", f"{time.monotonic() - begin:.1f}", False),
            *before.rows(phase), *samples.rows(phase, "life")]


class Mixed:
    """Rounds of mixed traffic on the running loop."""

    def __init__(self, source: random.Random) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        self.cancelled = 0
        self.failures: list[str] = []
        self._source = source

    async def round(self, ground: traffic.Ground) -> None:
        end = asyncio.get_running_loop().time() + ROUND_S
        seeds = [self._source.getrandbits(64) for _ in range(WORKERS)]
        await asyncio.gather(*(self._work(ground, end, random.Random(seed)) for seed in seeds))
        await ground.idle()

    async def _work(self, ground: traffic.Ground, end: float, source: random.Random) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < end and not self.failures:
            name = source.choice(list(traffic.KINDS))
            task = asyncio.ensure_future(traffic.KINDS[name](ground, source))
            if source.random() < CANCELLED:
                await self._some_time(source)
                task.cancel()
            _, late = await asyncio.wait([task], timeout=PIECE_S)
            self.done[name] += 1
            if late:
                self.failures.append(f"{name} does not end: {_where(task)}")
                print(self.failures[-1], flush=True)
            elif task.cancelled():
                self.cancelled += 1
            elif (error := task.exception()) is not None:
                self.failures.append(f"{name}: {error!r}")

    @staticmethod
    async def _some_time(source: random.Random) -> None:
        if source.random() < 0.5:
            for _ in range(source.randint(0, 30)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(source.random() * 0.02)


def _where(task: asyncio.Task[None]) -> str:
    """The lines at which it and those that it waits for stand."""
    lines, awaited = [], task.get_coro()
    while (not isinstance(awaited, ringloop.Awaitable)
           and (frame := getattr(awaited, "cr_frame", None)) is not None):
        lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return f"{' > '.join(lines)}: {awaited!r}"


# Of these none but the servers' own may be there between rounds.
STEADY = ("transports", "listeners", "datagram_transports", "awaits_pending", "files",
          "write_blocks", "buffers")


async def mixed(seconds: float, source: random.Random, leak: Callable[[], None]) -> list[Row]:
    samples = Samples(ROUND_BLOCKS, ROUND_KIB)
    work, begin = Mixed(source), time.monotonic()
    steady: dict[str, int] = {}
    async with traffic.ground() as ground:
        while time.monotonic() - begin < seconds and not work.failures:
            await work.round(ground)
            leak()
            samples.take()
            now = {name: accounts.native()[name] for name in STEADY}
            steady = steady or now
            if now != steady:
                work.failures.append(f"between rounds the ledger changed: {steady} to {now}")
    told = work.failures + ground.reports
    counts = ", ".join(f"{name} {count}" for name, count in sorted(work.done.items()))
    print(f"    {counts}; cancelled {work.cancelled}", flush=True)
    phase = f"{time.monotonic() - begin:.0f} s mixed"
    return [Row(phase, "pieces of traffic", f"{work.done.total():,}", False),
            Row(phase, "failures and reports", "; ".join(told[:5]) or "none", bool(told)),
            *samples.rows(phase, "round")]


def mixed_traffic(new_loop: loops.Factory, seconds: float, source: random.Random,
                  leak: Callable[[], None]) -> list[Row]:
    before = Equality()
    with limits.time_limit(seconds + STALL_S, 2, "mixed traffic"):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            rows = runner.run(mixed(seconds, source, leak))
    return [*rows, *before.rows(rows[0].phase)]


# ---- leaks on purpose

_kept: list[Any] = []


def _leaked_thread() -> None:
    threading.Thread(target=threading.Event().wait, name="leaked", daemon=True).start()


def _leaked_child() -> None:
    _kept.append(subprocess.Popen(["sleep", "600"]))


LEAKS: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "blocks": lambda: _kept.append([object() for _ in range(200)]),
    "memory": lambda: _kept.append(bytearray(os.urandom(8 << 20))),   # more than a heap may trim
    "descriptor": lambda: _kept.append(os.dup(0)),
    "thread": _leaked_thread,
    "child": _leaked_child,
    "loop": lambda: _kept.append(ringloop.new_event_loop()),
}


def _end_children() -> None:
    for each in _kept:
        if isinstance(each, subprocess.Popen):
            each.kill()
            each.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev soak", description="a long run of everything")
    parser.add_argument("--seconds", type=float, default=60, help="of mixed traffic, a backend")
    parser.add_argument("--lives", type=int, default=500, help="of loops, on each backend")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run's choices")
    parser.add_argument("--backend", action="append", choices=("uring", "epoll"),
                        help="only this one")
    parser.add_argument("--leak", choices=LEAKS, default="nothing", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    print(f"seed {seed}", flush=True)
    rows: dict[str, list[Row]] = {}
    for backend in options.backend or ("uring", "epoll"):
        reason = loops.refusal(backend)
        if reason is not None:
            print(f"skipped: {reason}")
            continue
        source, new_loop = random.Random(seed), loops.factory(f"ringloop-{backend}")
        leak = LEAKS[options.leak]
        print(f"{backend}: {options.lives} lives, {options.seconds:g} s of mixed traffic",
              flush=True)
        try:
            rows[backend] = lives(new_loop, options.lives, source, leak)
            if options.seconds > 0:
                rows[backend] += mixed_traffic(new_loop, options.seconds, source, leak)
        except (Leak, TimeoutError) as error:
            rows.setdefault(backend, []).append(Row("", "", str(error), True))
    _end_children()
    for backend, each in rows.items():
        print()
        print("\n".join(f"{backend:<6} {row}" for row in each))
    leaked = [f"{backend}, {row.phase}: {row.measure}: {row.value}" for backend, each in
              rows.items() for row in each if row.leaks]
    print("\n" + ("\n".join(f"leaked: {line}" for line in leaked) or "nothing leaked"))
    return 1 if leaked or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
