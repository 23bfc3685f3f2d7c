"""Children that are started while this process opens descriptors of every kind inherit none.

They are started with close_fds=False: nothing hides a descriptor that was, for a moment, open
without close-on-exec. (tests/python/test_subprocess.py does the same with close_fds=True.)
"""
from __future__ import annotations

import asyncio
import os
import random
import threading
from typing import Any

import pytest

from harness import limits
from harness.loops import Run
from soak import traffic

CHILDREN = 10_000 if os.environ.get("RINGLOOP_TEST_ALL") == "1" else 600
SPAWNERS = 2
OPENERS = 4
OPENING = [kind for name, kind in traffic.KINDS.items()
           if name not in ("timers", "signals", "kernels", "threads")]


def inheritable() -> set[str]:
    """What a child may have: the descriptors of this process that are meant for it."""
    return {name for name in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{name}") and os.get_inheritable(int(name))}


class Spawner(threading.Thread):
    """Starts children on a loop of its own and looks at what each has."""

    def __init__(self, run: Run, count: int, allowed: set[str]) -> None:
        super().__init__()
        self._run, self._count, self._allowed = run, count, allowed | {"0", "1", "2"}
        self.failures: list[str] = []
        self.seen = 0

    def run(self) -> None:
        try:
            self._run(self._spawn())
        except Exception as error:
            self.failures.append(repr(error))

    async def _spawn(self) -> None:
        for _ in range(self._count):
            process = await asyncio.create_subprocess_exec(
                "ls", "-l", "/proc/self/fd", stdout=asyncio.subprocess.PIPE, close_fds=False)
            listing, _ = await process.communicate()
            found = {}
            for line in listing.decode().splitlines():
                place, arrow, name = line.partition(" -> ")
                if arrow:       # a name may have blanks: "/tmp/x (deleted)"
                    found[place.split()[-1]] = name
            # ls's own one is the folder that it lists.
            wrong = [f"{number} {name}" for number, name in found.items()
                     if number not in self._allowed and not name.startswith("/proc/")]
            if wrong or not found:
                self.failures.append(f"inherited {wrong} of {found}")
            self.seen += 1


async def open_and_close(run: Run, spawners: list[Spawner]) -> int:
    """All kinds of traffic, and loops, until the last spawner is through."""
    pieces = 0

    async def opener(ground: traffic.Ground, source: random.Random) -> None:
        nonlocal pieces
        while any(each.is_alive() for each in spawners):
            await source.choice(OPENING)(ground, source)
            run.new_loop().close()
            pieces += 1

    async with traffic.ground() as ground:
        for each in spawners:       # not before: OpenSSL opens certificates as it likes
            each.start()
        await asyncio.gather(*(opener(ground, random.Random(seed)) for seed in range(OPENERS)))
    assert ground.reports == []
    return pieces


@pytest.mark.time_limit(1_200)
def test_children_inherit_nothing_that_is_opened_while_they_start(
        run: Run, record_property: Any) -> None:
    count = int(CHILDREN / limits.SLOWDOWN) // SPAWNERS
    spawners = [Spawner(run, count, inheritable()) for _ in range(SPAWNERS)]
    pieces = run(open_and_close(run, spawners))
    for each in spawners:
        each.join()
        assert each.failures == [] and each.seen == count
    record_property("traffic_meanwhile", str(pieces))
    print(f"{count * SPAWNERS} children, {pieces} pieces of traffic meanwhile")
    assert pieces > 0
