"""./dev bench graph: a task graph of 1,000 mixed nodes beside gather by levels with executors.

Ten levels of 100 nodes, and one that ends them all; a node depends on two neighbours of the level
before. A third each: coroutines of Python's that wait for one turn; reads of a page of a file
(ours by the ring, the rival's os.pread in the executor); SHA-256 of two pages, without the GIL
(ours where="pool", the rival's in the executor). The rival gathers a level, then the next one; its
executor's threads are there. Both compute the same value, which is checked.

Makespan is from the first await to the end, with the graph built; building it is a row of its own.
"one input changed" runs again what depends on one of the 100 inputs.

On asyncio, uvloop and ringloop. Both run in one process, in turns; rounds are shuffled; a ratio is
ours over the rival's within one round, so below 1 ours is better.

    --rounds N   --json FILE
"""
from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from common import hosts, placing, report, stats
from common.hosts import HOSTS

LEVELS, WIDTH, PAGE, PAGES = 10, 100, 4096, 64
REPEATS = 20
KINDS = ("python", "native", "pool")


async def mix(left: bytes, right: bytes) -> bytes:
    await asyncio.sleep(0)
    return left[:2048] + right[:2048]


def digest(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(left + right).digest()


def offset(left: bytes, right: bytes) -> int:
    return (left[0] ^ right[1]) % PAGES * PAGE


def kind(level: int, column: int) -> str:
    return KINDS[(level + column) % len(KINDS)]


async def last(*values: bytes) -> bytes:
    return hashlib.sha256(b"".join(values)).digest()


def first(number: int) -> bytes:
    return number.to_bytes(2, "big") * (PAGE // 2)


def build(file: Any) -> tuple[Any, list[Any], Any]:
    import ringloop

    def read(left: bytes, right: bytes) -> Any:
        return file.pread(PAGE, offset=offset(left, right))

    functions = {"python": mix, "native": read, "pool": digest}
    graph = ringloop.Graph()
    inputs = [graph.input(first(number), name=f"in {number}") for number in range(WIDTH)]
    row: list[Any] = inputs
    for level in range(LEVELS):
        row = [graph.node(functions[where := kind(level, column)],
                          deps=[row[column], row[(column + 1) % WIDTH]], where=where,
                          name=f"{level}/{column}") for column in range(WIDTH)]
    return graph, inputs, graph.node(last, deps=row)


async def by_levels(descriptor: int, seeds: list[bytes]) -> bytes:
    loop = asyncio.get_running_loop()

    def read(left: bytes, right: bytes) -> bytes:
        return os.pread(descriptor, PAGE, offset(left, right))

    def begin(where: str, left: bytes, right: bytes) -> Awaitable[bytes]:
        if where == "python":
            return mix(left, right)
        return loop.run_in_executor(None, digest if where == "pool" else read, left, right)

    row = seeds
    for level in range(LEVELS):
        row = await asyncio.gather(*(
            begin(kind(level, column), row[column], row[(column + 1) % WIDTH])
            for column in range(WIDTH)))
    return await last(*row)


async def timed(run: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    begin, cpu = time.perf_counter(), time.process_time()
    await run()
    return time.perf_counter() - begin, time.process_time() - cpu


async def measure() -> dict[str, float]:
    import ringloop
    found: dict[str, list[tuple[float, float]]] = {"graph": [], "gather": [], "one input": []}
    with tempfile.NamedTemporaryFile() as data:
        data.write(os.urandom(PAGE * PAGES))
        data.flush()
        async with ringloop.open(data.name, "rb") as file:
            begin = time.perf_counter()
            graph, inputs, end = build(file)
            building = time.perf_counter() - begin
            seeds = [first(number) for number in range(WIDTH)]

            async def rival() -> None:
                assert await by_levels(data.fileno(), seeds) == end.result()

            async def again(changed: list[Any], count: int) -> None:
                for each in changed:
                    each.set(first(inputs.index(each)))
                assert len((await graph.run()).ran) == count

            async def all_of_it() -> None:
                await again(inputs, LEVELS * WIDTH + 1)

            async def a_part_of_it() -> None:    # two columns more a level, and the end
                await again(inputs[:1], sum(min(level + 2, WIDTH) for level in range(LEVELS)) + 1)

            await all_of_it()
            plan: dict[str, Any] = {"graph": all_of_it, "gather": rival, "one input": a_part_of_it}
            for repeat in range(REPEATS + 2):
                for name in random.sample(list(plan), len(plan)):
                    times = await timed(plan[name])
                    if repeat >= 2:
                        found[name].append(times)
    return {"building": building} | {
        f"{name}{what}": stats.quantile([times[column] for times in all_times], 0.5)
        for name, all_times in found.items() for column, what in enumerate(("", ", CPU"))}


def run_host(host: str) -> None:
    factory = __import__(host).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(measure())), flush=True)


def main() -> None:
    parser = report.options("graph", __doc__, rounds=7)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host)
    placing.pin({0, 1}, real_time=False)     # as a service runs: threads share the processors
    found = hosts.rounds(__file__, options.rounds)
    print(report.table(["ms", *HOSTS], [
        [name, *(f"{stats.quantile([run[name] for run in found[host]], 0.5) * 1e3:.2f}"
                 for host in HOSTS)] for name in found["ringloop"][0]]))
    print()

    def against(ours: str, theirs: str, rival: str | None = None) -> list[stats.Ratio]:
        return [stats.paired([run[ours] for run in found[host]],
                             [run[theirs] for run in found[rival or host]]) for host in HOSTS]

    rows = {"graph / gather": against("graph", "gather"),
            "graph / gather on asyncio": against("graph", "gather", "asyncio"),
            "graph / gather, CPU": against("graph, CPU", "gather, CPU"),
            "one input changed / graph": against("one input", "graph")}
    print(report.table(["ratio", *HOSTS], [[name, *map(str, row)] for name, row in rows.items()]))
    report.save(options.json, "graph", found)
    report.ratio(rows["graph / gather"][-1].value,
                 "makespan of 1,001 mixed nodes, graph over gather by levels with executors, "
                 "ringloop")


if __name__ == "__main__":
    main()
