"""./dev bench roundtrip: what one await costs, by who completes it.

Awaits that are done at once; that suspend once and are completed by a NOP on the ring; by a job on
a native worker thread (hop); beside sleep(0), a future resolved by call_soon, and run_in_executor.
On asyncio, uvloop and ringloop; with both threads on one core and on two.

    --rounds N   --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from common import hosts, placing, report, stats
from common.hosts import HOSTS

PLACES = (1, 2)
CELLS = (
    "immediate None",
    "immediate bytes",
    "sleep(0)",
    "future by call_soon",
    "NOP on the ring",
    "NOP, at submit",
    "worker hop",
    "run_in_executor",
)
THREADED = ("worker hop", "run_in_executor")


async def one_by_one(make: Callable[[], Awaitable[Any]], count: int) -> list[float]:
    """Seconds of each await."""
    clock, times = time.perf_counter, []
    for _ in range(count):
        begin = clock()
        await make()
        times.append(clock() - begin)
    return times


async def mean(make: Callable[[], Awaitable[Any]], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        await make()
    return (time.perf_counter() - begin) / count


async def measure(host: str) -> dict[str, list[float]]:
    from ringloop import _native

    loop = asyncio.get_running_loop()

    def future() -> asyncio.Future[None]:
        made = loop.create_future()
        loop.call_soon(made.set_result, None)
        return made

    # A guest may deliver a NOP at its submit; on ringloop's loop it always takes a turn.
    nop = functools.partial(_native._probe_nop, None, host != "ringloop")
    short: dict[str, Callable[[], Awaitable[Any]]] = {
        "immediate None": _native._probe_immediate,
        "immediate bytes": functools.partial(_native._probe_immediate, b"bytes"),
        "sleep(0)": functools.partial(asyncio.sleep, 0),
        "future by call_soon": future,
        "NOP, at submit": _native._probe_nop,
    }
    found: dict[str, list[float]] = {}
    for name, make in short.items():
        await mean(make, 2000)
        value = await mean(make, 30_000)
        found[name] = [value, value]
    threaded: dict[str, Callable[[], Awaitable[Any]]] = {
        "NOP on the ring": nop,
        "worker hop": _native._probe_hop,
        "run_in_executor": lambda: loop.run_in_executor(None, nothing),
    }
    for name, make in threaded.items():
        await one_by_one(make, 500)
        times = await one_by_one(make, 20_000 if name.startswith("NOP") else 3000)
        found[name] = [stats.quantile(times, 0.5), stats.quantile(times, 0.99)]
    return found


def nothing() -> None:
    pass


def run_host(host: str, cores: int) -> None:
    placing.pin(set(range(cores)))
    factory = __import__(host).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(measure(host))), flush=True)


def main() -> None:
    parser = report.options("roundtrip", __doc__)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host, options.cores)
    plan = [(host, cores) for cores in PLACES for host in HOSTS]
    found: dict[tuple[str, int], list[dict[str, list[float]]]] = {each: [] for each in plan}
    for _ in range(options.rounds):
        for host, cores in random.sample(plan, len(plan)):
            found[host, cores].append(hosts.measured(__file__, host, "--cores", str(cores)))
    for cores in PLACES:
        rows = [
            [
                cell,
                *(
                    shown([run[cell] for run in found[host, cores]], cell in THREADED)
                    for host in HOSTS
                ),
            ]
            for cell in CELLS
        ]
        for cell in ("NOP on the ring", "worker hop"):
            rows.append(
                [
                    f"{cell} / run_in_executor",
                    *(str(against(found[host, cores], cell)) for host in HOSTS),
                ]
            )
        print(
            report.table([f"us (p99 in brackets), {cores} core{'s' * (cores > 1)}", *HOSTS], rows)
        )
        print()
    report.save(
        options.json,
        "roundtrip",
        {f"{host}, {cores} cores": runs for (host, cores), runs in found.items()},
    )
    report.ratio(
        against(found["ringloop", 2], "NOP on the ring").value,
        "p50 of an await completed by a ring NOP over run_in_executor, ringloop, 2 cores",
    )


def against(runs: list[dict[str, list[float]]], cell: str) -> stats.Ratio:
    return stats.paired([run[cell][0] for run in runs], [run["run_in_executor"][0] for run in runs])


def shown(runs: list[list[float]], with_p99: bool) -> str:
    p50, p99 = (stats.quantile(list(column), 0.5) * 1e6 for column in zip(*runs))
    return f"{p50:.2f} ({p99:.1f})" if with_p99 else f"{p50:.3f}"


if __name__ == "__main__":
    main()
