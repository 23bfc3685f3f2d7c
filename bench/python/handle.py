"""./dev bench handle: completions through a shared handle.

Native: one to four producers on a lane each, flat out, and a consumer without Python: completions
per second, and the CPU that one costs either side. Then under each loop, by a thread of a C
extension, 1,000 at once: the CPU of the loop's thread for each, from the record to the finished
await; with a callback in Python on each, beside the same callbacks by call_soon alone; and beside
futures completed by one call_soon_threadsafe each, from the same thread. Last, 8,192 in flight:
completions per wake-up.

    --rounds N   --count N of each native measurement   --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from common import completing, hosts, placing, report, stats
from common.hosts import HOSTS

PRODUCERS = (1, 2, 4)
BATCH, BATCHES = 1000, 100
DEEP = 8192


def native(producers: int, count: int) -> dict[str, float]:
    program = Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp" / "handle"
    done = subprocess.run(
        [str(program), str(producers), str(count)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def nothing(_: object) -> None:
    pass


class Meter:
    """CPU of this thread and time on the clock, in nanoseconds of each item."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __enter__(self) -> None:
        self._from = time.thread_time(), time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        cpu, wall = self._from
        self.cpu += (time.thread_time() - cpu) * 1e9 / (BATCH * BATCHES)
        self.wall += (time.perf_counter() - wall) * 1e9 / (BATCH * BATCHES)


async def delivered(extension: Any, callbacks: bool) -> tuple[Meter, Meter]:
    """(submitting, completing)"""
    import ringloop

    submitting, completing = Meter(), Meter()
    with ringloop.SharedHandle(slots=BATCH) as handle:
        capsule = handle.capsule
        for _ in range(BATCHES):
            with submitting:
                pairs = [handle.submit() for _ in range(BATCH)]
            tokens = [token for token, _ in pairs]
            if callbacks:
                for _, each in pairs[:-1]:
                    each.add_done_callback(nothing)
            with completing:
                extension.tokens(capsule, tokens)
                await pairs[-1][1]
                if callbacks:
                    await asyncio.sleep(0)
    return submitting, completing


async def called_soon() -> Meter:
    meter, loop = Meter(), asyncio.get_running_loop()
    for _ in range(BATCHES):
        with meter:
            for _ in range(BATCH):
                loop.call_soon(nothing, None)
            await asyncio.sleep(0)
    return meter


async def threadsafe(extension: Any) -> Meter:
    meter, loop = Meter(), asyncio.get_running_loop()
    call = loop.call_soon_threadsafe  # the thread has no reference of its own
    for _ in range(BATCHES):
        batch = [loop.create_future() for _ in range(BATCH)]
        for each in batch[:-1]:
            each.add_done_callback(nothing)
        results = [each.set_result for each in batch]
        with meter:
            extension.calls(call, results)
            await batch[-1]
            await asyncio.sleep(0)
    return meter


async def per_wake(extension: Any) -> float:
    import ringloop

    with ringloop.SharedHandle(slots=DEEP) as handle:
        for _ in range(10):
            pairs = [handle.submit() for _ in range(DEEP)]
            for _, each in pairs[:-1]:
                each.add_done_callback(nothing)
            extension.tokens(handle.capsule, [token for token, _ in pairs])
            await pairs[-1][1]
        found = handle.counters()
    return found["completions"] / max(found["wakes"], 1)


def run_host(host: str) -> None:
    """In a process of its own: prints its numbers."""
    placing.pin({0, 1}, real_time=False)
    extension = completing.load()
    with asyncio.Runner(loop_factory=__import__(host).new_event_loop) as runner:
        runner.run(delivered(extension, True))
        submitting, plain = runner.run(delivered(extension, False))
        _, called = runner.run(delivered(extension, True))
        alone, single = runner.run(called_soon()), runner.run(threadsafe(extension))
        numbers = {
            "submit": submitting.cpu,
            "delivered": plain.cpu,
            "with a callback": called.cpu,
            "callback by call_soon": alone.cpu,
            "by call_soon_threadsafe": single.cpu,
            "wall": called.wall,
            "wall threadsafe": single.wall,
            "completions per wake": runner.run(per_wake(extension)),
        }
        print(json.dumps(numbers), flush=True)


def median(runs: list[dict[str, float]], key: str) -> float:
    return stats.quantile([each[key] for each in runs], 0.5)


def native_table(found: dict[int, list[dict[str, float]]]) -> str:
    rows = []
    for producers, runs in found.items():
        rows.append(
            [
                str(producers),
                f"{median(runs, 'per_second'):,.0f}",
                f"{max(each['per_second'] for each in runs):,.0f}",
                f"{median(runs, 'producer_ns'):.0f}",
                f"{median(runs, 'consumer_ns'):.0f}",
                f"{sum(each['writes'] for each in runs):.0f}"
                f" / {sum(each['sleeps'] for each in runs):.0f}",
            ]
        )
    head = ["producers", "per second", "best", "CPU ns there", "CPU ns here", "writes / sleeps"]
    return report.table(head, rows)


def host_table(found: dict[str, list[dict[str, float]]]) -> str:
    cells = [key for key in next(iter(found.values()))[0] if not key.startswith("wall")]
    rows = [[cell, *(f"{median(found[host], cell):.0f}" for host in HOSTS)] for cell in cells]
    rows.append(
        ["throughput over call_soon_threadsafe", *(str(against(found[host])) for host in HOSTS)]
    )
    return report.table(["loop's CPU, ns of each", *HOSTS], rows)


def against(runs: list[dict[str, float]]) -> stats.Ratio:
    return stats.paired([each["wall threadsafe"] for each in runs], [each["wall"] for each in runs])


def main() -> None:
    parser = report.options("handle", __doc__)
    parser.add_argument("--count", type=int, default=5_000_000)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host)
    natives: dict[int, list[dict[str, float]]] = {each: [] for each in PRODUCERS}
    by_host: dict[str, list[dict[str, float]]] = {host: [] for host in HOSTS}
    for _ in range(options.rounds):
        for producers in PRODUCERS:
            natives[producers].append(native(producers, options.count))
        for host in hosts.shuffled():
            by_host[host].append(hosts.measured(__file__, host))
    print(native_table(natives))
    print()
    print(host_table(by_host))
    report.save(options.json, "handle", {"native": natives, "hosts": by_host})
    report.ratio(
        median(by_host["ringloop"], "delivered") / 150,
        "loop's CPU for a delivered completion over 150 ns, ringloop",
    )


if __name__ == "__main__":
    main()
