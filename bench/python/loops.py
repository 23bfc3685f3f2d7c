"""./dev bench loops: ringloop beside uvloop, rloop and asyncio.

Micro cells (time per item, the best of five) and TCP echo of 1 KiB messages (CPU per request) by
Protocol at 10 and 100 connections and by streams at 100. Server on core 0, C++ client on core 1.
Rounds are shuffled; a ratio is rival over ringloop within one round, so above 1 ringloop is better.

    --rounds N   --seconds S of each echo   --only micro|echo   --loops a,b   --json FILE
"""
from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from common import placing, report, stats
from common.loop_cells import MICRO

CELLS = Path(__file__).parent / "common" / "loop_cells.py"
ECHO = {"TCP Protocol, 10 connections": ("protocol", 10),
        "TCP Protocol, 100 connections": ("protocol", 100),
        "streams, 100 connections": ("streams", 100)}
MESSAGE_BYTES = 1024
Values = dict[str, dict[str, list[float]]]       # cell: loop: one value a round


def micro(loop: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, str(CELLS), "micro", loop], capture_output=True,
                          text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def client(port: int, connections: int, seconds: float) -> int:
    """Requests answered. One request in flight on each connection."""
    program = Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp" / "echo_client"
    done = subprocess.run([str(program), str(port), str(connections), str(MESSAGE_BYTES),
                           str(seconds)], capture_output=True, text=True, check=True,
                          preexec_fn=lambda: placing.pin({1}) and None)
    answered: int = json.loads(done.stdout)["requests"]
    return answered


def echo(loop: str, mode: str, connections: int, seconds: float) -> float:
    """CPU seconds of the server per request."""
    with subprocess.Popen([sys.executable, str(CELLS), "serve", loop, mode],
                          stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            client(port, connections, seconds / 4)       # warm
            before = placing.cpu_seconds(server.pid)
            answered = client(port, connections, seconds)
            return (placing.cpu_seconds(server.pid) - before) / answered
        finally:
            server.kill()


def one_round(loops: list[str], options: argparse.Namespace, values: Values) -> None:
    jobs: list[tuple[str, str]] = []
    if options.only != "echo":
        jobs += [("micro", loop) for loop in loops]
    if options.only != "micro":
        jobs += [(cell, loop) for cell in ECHO for loop in loops]
    random.shuffle(jobs)
    for cell, loop in jobs:
        if cell == "micro":
            for name, value in micro(loop).items():
                values[name][loop].append(value)
        else:
            values[cell][loop].append(echo(loop, *ECHO[cell], options.seconds))


def rows(values: Values, rivals: list[str]) -> list[list[str]]:
    found = []
    for cell, by_loop in values.items():
        ours = by_loop["ringloop"]
        if not ours:
            continue
        unit = 1e6 if cell in ECHO else 1e9
        row = [cell, f"{stats.geometric_mean(ours) * unit:.2f} {'us' if cell in ECHO else 'ns'}"]
        row += [str(stats.paired(by_loop[rival], ours)) for rival in rivals]
        found.append(row)
    return found


def main() -> None:
    parser = report.options("loops", __doc__, rounds=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", choices=("micro", "echo"))
    parser.add_argument("--loops", default="asyncio,uvloop,rloop")
    options = parser.parse_args()
    rivals = [name for name in options.loops.split(",") if name != "ringloop"]  # it is always there
    loops = ["ringloop", *rivals]
    values: Values = {cell: {loop: [] for loop in loops} for cell in (*MICRO, *ECHO)}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        one_round(loops, options, values)
    print(report.table(["cell", "ringloop", *[f"{rival} / ringloop" for rival in rivals]],
                       rows(values, rivals)))
    report.save(options.json, "loops", {"values": values, "rounds": options.rounds})
    if options.only == "micro":
        base = "rloop" if "rloop" in rivals else rivals[0]
        cells, what = list(MICRO), f"{base}'s time over ringloop's, geometric mean of all cells"
    else:
        base = "uvloop" if "uvloop" in rivals else rivals[0]
        cells = [cell for cell, (mode, _) in ECHO.items() if mode == "protocol"]
        what = f"{base}'s CPU per request over ringloop's, TCP Protocol, 10 and 100 connections"
    report.ratio(stats.geometric_mean([stats.paired(values[cell][base],
                                                    values[cell]["ringloop"]).value
                                       for cell in cells]), what)


if __name__ == "__main__":
    main()
