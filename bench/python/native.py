"""./dev bench native: ringloop's native echo beside bare epoll, bare liburing and Asio.

TCP echo, 10, 100 and 1,000 connections, 1 and 16 KiB; CPU of the server per request. Server on
core 0, client on core 1, real-time priority where it is allowed. In each round every server does
every cell, in shuffled order; a ratio is server over bare epoll within one round, so below 1 is
better than epoll.

    --rounds N   --seconds S of each measurement   --only NAME,…   --json FILE
"""
from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

from common import placing, report, stats

YARDSTICK = "epoll"
SERVERS = {"ringloop": "echo_ringloop", "epoll": "echo_epoll", "liburing": "echo_uring",
           "asio": "echo_asio"}
CELLS = [(connections, size) for size in (1024, 16384) for connections in (10, 100, 1000)]
Cell = tuple[int, int]


def programs() -> Path:
    return Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp"


def measure(server: str, cell: Cell, seconds: float) -> float:
    """CPU seconds of the server per request."""
    connections, size = cell
    with subprocess.Popen([str(programs() / SERVERS[server])], stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: placing.pin({0}) and None) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            done = subprocess.run(
                [str(programs().parent / "load" / "loopclient"), f"address={port}",
                 f"connections={connections}", f"bytes={size}", f"warm_seconds={seconds / 4}",
                 f"seconds={seconds}", f"server_pid={process.pid}"],
                stdout=subprocess.PIPE, text=True, check=True,
                preexec_fn=lambda: placing.pin({1}) and None)
        finally:
            process.kill()
    found: dict[str, float] = json.loads(done.stdout)
    return found["server_cpu_seconds"] / found["answers"]


def label(cell: Cell) -> str:
    return f"{cell[0]:,} connections, {cell[1] // 1024} KiB"


def main() -> None:
    parser = report.options("native", __doc__, rounds=7)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--only", help="servers besides epoll, by name")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(SERVERS)
    servers = [name for name in SERVERS if (name in wanted or name == YARDSTICK)
               and (programs() / SERVERS[name]).exists()]
    spent: dict[Cell, dict[str, list[float]]] = {cell: {name: [] for name in servers}
                                                 for cell in CELLS}
    for round_number in range(options.rounds):
        for cell in random.sample(CELLS, len(CELLS)):
            for server in random.sample(servers, len(servers)):
                spent[cell][server].append(measure(server, cell, options.seconds))
        print(f"round {round_number + 1} of {options.rounds}", flush=True)

    rivals = [name for name in servers if name != YARDSTICK]
    ratios = {cell: {name: stats.paired(spent[cell][name], spent[cell][YARDSTICK])
                     for name in rivals} for cell in CELLS}
    rows: list[list[object]] = []
    for cell in CELLS:
        best = sorted(spent[cell][YARDSTICK])[options.rounds // 2]
        rows.append([label(cell), f"{best * 1e6:.2f} us"] +
                    [str(ratios[cell][name]) for name in rivals])
    means = {name: stats.geometric_mean([ratios[cell][name].value for cell in CELLS])
             for name in rivals}
    rows.append(["geometric mean", ""] + [f"{means[name]:.3f}" for name in rivals])
    print(report.table(["CPU per request, over bare epoll", YARDSTICK, *rivals], rows))
    report.save(options.json, "native", {
        "cells": {label(cell): {"epoll_us": [value * 1e6 for value in spent[cell][YARDSTICK]],
                                "ratio": {name: [ratios[cell][name].value, ratios[cell][name].low,
                                                 ratios[cell][name].high] for name in rivals}}
                  for cell in CELLS}, "geometric_mean": means})
    if "asio" in means:
        print(f"asio_ratio={means['asio']:.3f}  Asio's awaitable over bare epoll, same cells")
    if "ringloop" in means:
        report.ratio(means["ringloop"], "CPU per request of ringloop's native echo over bare "
                     "epoll, geometric mean of 6 cells")


if __name__ == "__main__":
    main()
