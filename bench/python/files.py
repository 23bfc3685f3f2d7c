"""./dev bench files: reading files without blocking the loop, beside run_in_executor.

64 KiB reads of a cached file (one after another, 32 at once) and 2,000 files of 4 KiB (8 at once):
the ring's awaits, run_in_executor, and blocking in place. Then the loop's lag while a reader waits
on a slow FIFO. Executors run under uvloop and ringloop, the awaits under asyncio, too.

    --rounds N   --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from common import hosts, placing, report, stats
from common.hosts import HOSTS

SIZE, READS, AT_ONCE = 65536, 1024, 32
FILES, FILE_SIZE, FILES_AT_ONCE = 2000, 4096, 8
Work = Callable[[], Awaitable[Any]]


async def timed(work: Work, items: int) -> list[float]:
    """Wall and CPU seconds per item, of the second of two goes."""
    await work()
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return [(time.perf_counter() - wall) / items, (time.process_time() - cpu) / items]


async def spread(make: Callable[[int], Awaitable[Any]], count: int, at_once: int) -> None:
    numbers: Iterator[int] = iter(range(count))

    async def one() -> None:
        for number in numbers:
            await make(number)

    await asyncio.gather(*(one() for _ in range(at_once)))


async def big_reads(path: Path) -> dict[str, list[float]]:
    import ringloop

    loop, found = asyncio.get_running_loop(), {}
    fd = os.open(path, os.O_RDONLY)
    async with ringloop.open(path, "rb") as file:

        async def sequential() -> None:
            await file.seek(0)
            for _ in range(READS):
                await file.read(SIZE)

        async def sequential_executor() -> None:
            for number in range(READS):
                await loop.run_in_executor(None, os.pread, fd, SIZE, number * SIZE)

        async def blocking() -> None:
            for number in range(READS):
                os.pread(fd, SIZE, number * SIZE)

        found["64 KiB, 1 in flight, awaits"] = await timed(sequential, READS)
        found["64 KiB, 1 in flight, executor"] = await timed(sequential_executor, READS)
        found["64 KiB, blocking"] = await timed(blocking, READS)
        found["64 KiB, 32 in flight, awaits"] = await timed(
            lambda: spread(lambda n: file.pread(SIZE, n * SIZE), READS, AT_ONCE), READS
        )
        found["64 KiB, 32 in flight, executor"] = await timed(
            lambda: spread(
                lambda n: loop.run_in_executor(None, os.pread, fd, SIZE, n * SIZE), READS, AT_ONCE
            ),
            READS,
        )
    os.close(fd)
    return found


async def small_files(folder: Path) -> dict[str, list[float]]:
    from ringloop import fs

    loop = asyncio.get_running_loop()
    paths = [str(folder / str(number)) for number in range(FILES)]

    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    async def blocking() -> None:
        for path in paths:
            read(path)

    return {
        "4 KiB files, 8 in flight, awaits": await timed(
            lambda: spread(lambda n: fs.read_bytes(paths[n]), FILES, FILES_AT_ONCE), FILES
        ),
        "4 KiB files, 8 in flight, executor": await timed(
            lambda: spread(
                lambda n: loop.run_in_executor(None, read, paths[n]), FILES, FILES_AT_ONCE
            ),
            FILES,
        ),
        "4 KiB files, blocking": await timed(blocking, FILES),
    }


async def lag_p99(each: Callable[[int], None]) -> float:
    """p99 of how late a 1 ms timer is."""
    lags: list[float] = []
    for number in range(500):
        begin = time.perf_counter()
        await asyncio.sleep(0.001)
        lags.append(time.perf_counter() - begin - 0.001)
        each(number)
    return stats.quantile(lags, 0.99)


async def fifo_lag(folder: Path) -> dict[str, list[float]]:
    """While a reader waits on a FIFO that gets a line a 10 ms, and (what the machine itself does to
    a timer) without it."""
    import ringloop

    alone = await lag_p99(lambda _: None)
    path = folder / "fifo"
    os.mkfifo(path)
    async with ringloop.open(path, "rb") as file:
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)

        async def read() -> int:
            lines = 0
            while await file.readline():
                lines += 1
            return lines

        def feed(number: int) -> None:
            if number % 10 == 0:
                os.write(writer, b"line\n")

        reading = asyncio.create_task(read())
        beside = await lag_p99(feed)
        os.close(writer)
        if await reading != 50:
            raise SystemExit("lines were lost on the FIFO")
    os.unlink(path)
    return {"loop lag p99 beside a slow FIFO": [beside, beside],
            "loop lag p99 with nothing beside": [alone, alone]}


async def measure(folder: Path) -> dict[str, list[float]]:
    return {
        **await big_reads(folder / "big"),
        **await small_files(folder),
        **await fifo_lag(folder),
    }


def run_host(host: str, folder: Path) -> None:
    placing.pin({0, 1}, real_time=False)
    with asyncio.Runner(loop_factory=__import__(host).new_event_loop) as runner:
        print(json.dumps(runner.run(measure(folder))), flush=True)


def prepare(folder: Path) -> None:
    (folder / "big").write_bytes(os.urandom(SIZE * READS))
    for number in range(FILES):
        (folder / str(number)).write_bytes(os.urandom(FILE_SIZE))


def main() -> None:
    parser = report.options("files", __doc__)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host, options.folder)
    found: dict[str, list[dict[str, list[float]]]] = {host: [] for host in HOSTS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for _ in range(options.rounds):
            for host in hosts.shuffled():
                found[host].append(hosts.measured(__file__, host, "--folder", name))
    cells = list(found[HOSTS[0]][0])
    print(
        report.table(
            ["us per item: wall / CPU", *HOSTS],
            [
                [cell, *(shown([run[cell] for run in found[host]]) for host in HOSTS)]
                for cell in cells
            ],
        )
    )
    print()
    checks = ratios(found)
    for label, value in checks.items():
        print(f"{label}: {value}")
    report.save(options.json, "files", {"hosts": found})
    report.ratio(
        checks["CPU of a 64 KiB await over the executor's, 1 in flight"].value,
        "CPU of an awaited 64 KiB read on ringloop over run_in_executor's on uvloop",
    )


def ratios(found: dict[str, list[dict[str, list[float]]]]) -> dict[str, stats.Ratio]:
    def column(host: str, cell: str, which: int) -> list[float]:
        return [run[cell][which] for run in found[host]]

    wall, cpu = 0, 1
    return {
        "CPU of a 64 KiB await over the executor's, 1 in flight": stats.paired(
            column("ringloop", "64 KiB, 1 in flight, awaits", cpu),
            column("uvloop", "64 KiB, 1 in flight, executor", cpu),
        ),
        "CPU of a 64 KiB await over the executor's, 32 in flight": stats.paired(
            column("ringloop", "64 KiB, 32 in flight, awaits", cpu),
            column("uvloop", "64 KiB, 32 in flight, executor", cpu),
        ),
        "CPU of a 64 KiB await over blocking in place": stats.paired(
            column("ringloop", "64 KiB, 1 in flight, awaits", cpu),
            column("ringloop", "64 KiB, blocking", cpu),
        ),
        "wall time of the executor over ours, small files": stats.paired(
            column("uvloop", "4 KiB files, 8 in flight, executor", wall),
            column("ringloop", "4 KiB files, 8 in flight, awaits", wall),
        ),
    }


def shown(runs: list[list[float]]) -> str:
    wall, cpu = (stats.quantile(list(column), 0.5) * 1e6 for column in zip(*runs))
    return f"{wall:.2f} / {cpu:.2f}"


if __name__ == "__main__":
    main()
