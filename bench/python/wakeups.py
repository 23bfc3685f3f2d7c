"""./dev bench wakeups: completions that come from another thread.

Native consumer, paced at 100,000/s and 500,000/s, beside a bare eventfd (a write each, epoll_wait):
wake-ups written, sleeps, latency. Then Python, flat out: awaits of native jobs that a worker thread
completes, beside futures completed by one call_soon_threadsafe each: by the same jobs of the same
worker, which takes the GIL for each completion as it does without the bridge, and in bursts by a
Python thread that is handed a whole batch and holds the GIL meanwhile.

    --rounds N   --seconds S of each native measurement   --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import threading
import time
from pathlib import Path

from common import hosts, placing, report, stats
from common.hosts import HOSTS

RATES = (100_000, 500_000)
MODES = ("ringloop", "eventfd")
BATCH, BATCHES = 1000, 20


def native(mode: str, rate: int, seconds: float) -> dict[str, float]:
    program = Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp" / "wakeups"
    done = subprocess.run(
        [str(program), mode, str(rate), str(seconds)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def awaits() -> float:
    """Native awaits completed per second."""
    from ringloop import _native

    hop, begin = _native._probe_hop, time.perf_counter()
    for _ in range(BATCHES):
        batch = [hop() for _ in range(BATCH)]
        for each in batch:
            each.add_done_callback(nothing)  # starts it
        for each in batch:
            await each
    return BATCH * BATCHES / (time.perf_counter() - begin)


async def called() -> float:
    """Futures completed per second by one call_soon_threadsafe each, from the same worker."""
    from ringloop import _native

    hop, loop = _native._probe_hop_by_call, asyncio.get_running_loop()
    begin = time.perf_counter()
    for _ in range(BATCHES):
        batch = [loop.create_future() for _ in range(BATCH)]
        for each in batch:
            each.add_done_callback(nothing)
            hop(loop.call_soon_threadsafe, each.set_result)
        for each in batch:
            await each
    return BATCH * BATCHES / (time.perf_counter() - begin)


async def bursts() -> float:
    """Likewise, by a Python thread that is handed each batch in one piece."""
    loop, begin = asyncio.get_running_loop(), time.perf_counter()
    ready: list[list[asyncio.Future[None]]] = []
    some = threading.Semaphore(0)

    def serve() -> None:
        for _ in range(BATCHES):
            some.acquire()
            for each in ready.pop():
                loop.call_soon_threadsafe(each.set_result, None)

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(BATCHES):
        batch = [loop.create_future() for _ in range(BATCH)]
        for each in batch:
            each.add_done_callback(nothing)
        ready.append(batch)
        some.release()
        for each in batch:
            await each
    thread.join()
    return BATCH * BATCHES / (time.perf_counter() - begin)


def nothing(_: object) -> None:
    pass


def python_rates(host: str) -> None:
    """In a process of its own: prints the two rates."""
    placing.pin({0, 1}, real_time=False)
    factory = __import__(host).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(awaits())
        rates = [awaits(), called(), bursts()]
        print(json.dumps([runner.run(each) for each in rates]), flush=True)


def main() -> None:
    parser = report.options("wakeups", __doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return python_rates(options.host)
    found: dict[int, dict[str, list[dict[str, float]]]] = {r: {m: [] for m in MODES} for r in RATES}
    rates: dict[str, list[list[float]]] = {host: [] for host in HOSTS}
    for _ in range(options.rounds):
        for rate in RATES:
            for mode in random.sample(MODES, len(MODES)):
                found[rate][mode].append(native(mode, rate, options.seconds))
        for host in hosts.shuffled():
            rates[host].append(hosts.measured(__file__, host))
    print(
        report.table(
            ["native consumer", "p50 us", "p99 us", "writes/completion", "writes/sleep"],
            [
                [f"{rate:,}/s {mode}", *numbers(found[rate][mode])]
                for rate in RATES
                for mode in MODES
            ],
        )
    )
    print()
    columns = {host: list(zip(*rates[host])) for host in HOSTS}
    print(
        report.table(
            ["Python, flat out, per second", "awaits", "threadsafe", "ratio", "in bursts", "ratio"],
            [
                [
                    host,
                    f"{median(awaited):,.0f}",
                    f"{median(single):,.0f}",
                    str(stats.paired(awaited, single)),
                    f"{median(burst):,.0f}",
                    str(stats.paired(awaited, burst)),
                ]
                for host, (awaited, single, burst) in columns.items()
            ],
        )
    )
    latency = {
        rate: stats.paired(*([each["p50_us"] for each in found[rate][mode]] for mode in MODES))
        for rate in RATES
    }
    for rate in RATES:
        print(f"p50 over a bare eventfd at {rate:,}/s: {latency[rate]}")
    report.save(options.json, "wakeups", {"native": found, "python": rates})
    report.ratio(
        latency[RATES[-1]].value,
        "p50 latency of a paced completion over a bare eventfd, " "500,000/s",
    )


def median(values: object) -> float:
    return stats.quantile(list(values), 0.5)  # type: ignore[call-overload]


def numbers(runs: list[dict[str, float]]) -> list[str]:
    writes = [each["wake_writes"] / each["completions"] for each in runs]
    per_sleep = [each["wake_writes"] / max(each["sleeps"], 1) for each in runs]
    return [
        f"{median([each['p50_us'] for each in runs]):.2f}",
        f"{median([each['p99_us'] for each in runs]):.1f}",
        f"{median(writes):.3f}",
        f"{median(per_sleep):.2f}",
    ]


if __name__ == "__main__":
    main()
