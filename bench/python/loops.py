"""./dev bench loops: ringloop beside the other event loops, cell by cell, with the bars it has.

Cells: callbacks, timers, tasks, threads, echo over TCP, Unix sockets, UDP and TLS, streams, sock_*,
web servers, processes, files, memory, growth, latency, fairness. A fresh process for each value;
servers on core 0, native clients on core 1, at real-time priority where that is allowed. Rounds
are shuffled; a ratio is of two values of one round (uvloop's cost over ours, unless a bar says
otherwise), its median with a 95 % interval. CPU is the main figure of most, wall time stands
beside it. Answers are checked; a wrong one is an error. Rivals that are not there are named.

    --rounds N     15 by default          --seconds S    of each load, 0.5 by default
    --cells A,B    those whose group or name contains one of these (a comma that a space follows
                   belongs to a name)     --list     only names them
    --loops A,B    these rivals in all cells that have any
    --quick        one tiny round of everything, to see that it works; figures mean nothing
    --normal-priority      for machines that others work on
    --json FILE    --charts FOLDER    loops-light.svg and loops-dark.svg
"""
from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from pathlib import Path

from cells import chart, loops, programs, shown
from cells.methods import loop_of
from cells.model import CPU, OURS, Cell, Unable
from cells.results import Results
from cells.rig import Rig
from cells.table import CELLS
from common import report, stats

WAYS = ("executor", "blocking")     # subjects that are no loops


def chosen_cells(wish: str | None) -> list[Cell]:
    # Names have commas of their own, with a space behind them.
    words = re.split(r",(?! )", wish.lower()) if wish else [""]
    return [cell for cell in CELLS
            if any(word in cell.name.lower() or word in cell.group for word in words)]


def subjects_of(cells: list[Cell], wish: str | None) -> dict[str, list[str]]:
    """By cell: ours, and its rivals or those of --loops."""
    wanted = [name for name in wish.split(",") if name and name != OURS] if wish else None
    found = {}
    for cell in cells:
        rivals = cell.rivals
        if wanted is not None and rivals:
            rivals = tuple(name for name in rivals if name in WAYS) or tuple(wanted)
        found[cell.name] = [OURS, *rivals]
    return found


def leave_out_absent(subjects: dict[str, list[str]]) -> dict[str, str]:
    """Takes the rivals that are not here out of `subjects`; why, by name."""
    names = {name for each in subjects.values() for name in each if name not in WAYS}
    absent = {name: why for name in sorted(names) if (why := loops.missing(name)) is not None}
    if OURS in absent:
        raise SystemExit(f"ringloop: {absent[OURS]}")
    for each in subjects.values():
        each[:] = [name for name in each if name not in absent]
    return absent


def make_rig(options: argparse.Namespace, results: Results) -> Rig:
    jobs: dict[str, set[str]] = {}
    for cell in results.cells:
        for subject in results.subjects[cell.name]:
            if (job := cell.method.job(subject)) is not None:
                jobs.setdefault(loop_of(subject), set()).add(job)
    services = {cell.method.service for cell in results.cells if cell.method.service is not None}
    return Rig(options.seconds, options.quick, jobs, services)


def one_round(rig: Rig, results: Results, number: int) -> None:
    plan = [(cell, subject) for cell in results.cells for subject in results.subjects[cell.name]
            if not results.given_up(cell, subject)]
    for cell, subject in random.sample(plan, len(plan)):
        try:
            results.add(cell, subject, number, cell.method.measure(rig, subject))
        except Unable as why:
            results.fail(cell, subject, str(why))


def parse() -> argparse.Namespace:
    parser = report.options("loops", __doc__, rounds=15)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cells")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--loops")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--normal-priority", action="store_true")
    parser.add_argument("--charts", type=Path, metavar="FOLDER")
    options: argparse.Namespace = parser.parse_args()
    if options.quick:
        options.rounds, options.loops = 1, options.loops or "asyncio"
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("at least one round of more than 0 seconds")
    if not chosen_cells(options.cells):
        parser.error(f"no cell's group or name contains {options.cells}; --list shows all")
    return options


def measured(options: argparse.Namespace) -> tuple[Results, dict[str, str]]:
    cells = chosen_cells(options.cells)
    subjects = subjects_of(cells, options.loops)
    absent = leave_out_absent(subjects)
    for name, why in absent.items():
        print(f"without {name}: {why}", flush=True)
    results = Results(cells, subjects)
    with make_rig(options, results) as rig:
        for number in range(options.rounds):
            begin = time.monotonic()
            one_round(rig, results, number)
            print(f"round {number + 1} of {options.rounds}: {time.monotonic() - begin:.0f} s",
                  file=sys.stderr, flush=True)
    return results, absent


def last_line(results: Results) -> None:
    """The two cells that are everybody's, else the first ratio that there is."""
    tcp = [results.ratio(cell, "uvloop", OURS, CPU) for cell in results.cells
           if cell.name.startswith("TCP Protocol 1 KiB")]
    if len(tcp) == 2 and all(tcp):
        report.ratio(stats.geometric_mean([each.value for each in tcp if each]),
                     "uvloop's CPU per request over ringloop's, TCP Protocol, 10 and 100 "
                     "connections")
        return
    for cell in results.cells:
        for verdict in results.verdicts(cell):
            if verdict.ratio is not None:
                what = verdict.bar or f"{verdict.against} over ringloop"
                report.ratio(verdict.ratio.value, f"{cell.name}: {what}")
                return


def main() -> int:
    options = parse()
    if options.list:
        for cell in chosen_cells(options.cells):
            print(f"{cell.group:12} {cell.name}: {'; '.join(map(str, cell.bars))}")
        return 0
    if options.normal_priority or options.quick:
        os.environ[programs.REAL_TIME] = "0"
    results, absent = measured(options)
    print(shown.table(results))
    print("\n".join(["", *shown.failures(results), shown.summary(results)]))
    names = {name for each in results.subjects.values() for name in each if name not in WAYS}
    report.save(options.json, "loops", {
        "rounds": options.rounds, "seconds": options.seconds, "absent": absent,
        "real_time": os.environ.get(programs.REAL_TIME, "1") != "0",
        "loops": {name: report.version(name) for name in sorted(names)},
        "cells": results.record()})
    if options.charts is not None:
        for path in chart.draw(results, options.charts):
            print(f"wrote {path}")
    last_line(results)
    return 1 if results.ours_failed() else 0


if __name__ == "__main__":
    sys.exit(main())
