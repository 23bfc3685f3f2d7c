"""./dev bench host: native programs that host Python, and the same logic hosted three ways.

Awaits: native code awaits a coroutine of Python's, on the loop's thread and on another scheduler's,
over run_coroutine_threadsafe(…).result() of a thread of Python's, p50; to the same loop, and to one
of asyncio's.
Hosting: examples/hosting. A square matrix multiplied, an image blurred, JSON parsed and added up:
by a program that hosts Python, with the data lent as it is and with the data marshalled, and by one
whose scripts load the logic as a module, over a program of Python's that loads it. Four processes,
which take turns.
Interop: as `./dev bench interop`, where Asio and libuv are there.

    --rounds N   --size N (of the matrix)   --json FILE
"""
from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import interop
from common import placing, report, stats

PROGRAMS = Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp"
SCRIPTS = report.ROOT / "examples" / "hosting" / "scripts"
# name: ours, theirs, the bar
AWAITS = {
    "same thread": ("same", "bridge", 0.25),
    "other thread": ("other", "bridge", 0.6),
    "same thread, coroutine that sleeps": ("same_sleeps", "bridge_sleeps", 0.25),
    "other thread, coroutine that sleeps": ("other_sleeps", "bridge_sleeps", 0.6),
    "same thread over asyncio's loop": ("same", "stock", 0.25),
    "other thread over asyncio's loop": ("other", "stock", 0.6),
}
WAYS = {"loaded": [sys.executable, str(SCRIPTS / "loaded.py")],
        "embedded, lent": [str(PROGRAMS / "hosting"), "lent"],
        "embedded, marshalled": [str(PROGRAMS / "hosting"), "marshalled"],
        "hybrid, lent": [str(PROGRAMS / "hosting"), "hybrid"]}
TASKS = {"multiply": "2048", "blur": "1080", "totals": "100000"}


def awaits(rounds: int) -> dict[str, list[float]]:
    done = subprocess.run([str(PROGRAMS / "host_costs"), str(rounds)], stdout=subprocess.PIPE,
                          text=True, check=True, preexec_fn=lambda: placing.pin({0, 1}) and None)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


class Process:
    def __init__(self, command: list[str]) -> None:
        modules = os.pathsep.join((str(PROGRAMS / "modules"), os.environ.get("PYTHONPATH", "")))
        self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE,
                                         env={**os.environ, "PYTHONPATH": modules},
                                         preexec_fn=lambda: placing.pin({0, 1}) and None)

    def ask(self, line: str) -> tuple[float, str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        took_ns, total = self._process.stdout.readline().split()
        return float(took_ns), total

    def end(self) -> None:
        self._process.communicate(timeout=60)
        if self._process.returncode != 0:
            raise SystemExit(f"{self._process.args} ended with {self._process.returncode}")


def hosting(rounds: int, tasks: dict[str, str]) -> dict[str, dict[str, list[float]]]:
    """task: way: nanoseconds of each round."""
    found: dict[str, dict[str, list[float]]] = {task: {way: [] for way in WAYS} for task in tasks}
    processes = {way: Process(command) for way, command in WAYS.items()}
    for round in range(-1, rounds):
        for task, size in tasks.items():
            totals = set()
            for way in random.sample(list(WAYS), len(WAYS)):
                took_ns, total = processes[way].ask(f"{task} {size}")
                totals.add(total)
                if round >= 0:      # the first is for warmth
                    found[task][way].append(took_ns)
            if len(totals) != 1:
                raise SystemExit(f"{task}: the ways have different results, {totals}")
    for process in processes.values():
        process.end()
    return found


def main() -> None:
    parser = report.options("host", __doc__, rounds=9)
    parser.add_argument("--size", default=TASKS["multiply"])
    options = parser.parse_args()
    if not (PROGRAMS / "host_costs").exists():
        raise SystemExit("this Python has no libpython to be hosted by")
    ratios: dict[str, stats.Ratio] = {}
    of_bar: dict[str, float] = {}
    rows = []

    def add(name: str, ours: list[float], theirs: list[float], bar: float,
            at_least: bool = False) -> None:
        ratios[name] = stats.paired(ours, theirs)
        of_bar[name] = bar / ratios[name].value if at_least else ratios[name].value / bar
        middle = len(ours) // 2
        rows.append([name, *(f"{sorted(each)[middle] / 1000:.1f} us" for each in (ours, theirs)),
                     str(ratios[name]), f"{'>' if at_least else '<'}= {bar}"])

    found = awaits(options.rounds)
    for name, (ours, theirs, bar) in AWAITS.items():
        add(name, found[ours], found[theirs], bar)
    ways = hosting(options.rounds, {**TASKS, "multiply": options.size})
    for task, took in ways.items():
        for way in list(WAYS)[1:]:
            slow = "marshalled" in way
            add(f"{task}: {way}", took[way], took["loaded"], 1.5 if slow else 1.15, slow)
    records: dict[str, object] = {"ns": found, "hosting_ns": ways}
    if (PROGRAMS / "interop_costs").exists():
        crossing, _ = interop.measure(options.rounds)
        for name, (ours, theirs) in interop.PAIRS.items():
            add(name, crossing[ours], crossing[theirs], 1.2)
        records["interop_ns"] = crossing
    print(report.table(["", "ours", "the other's", "ratio", "bar"], rows))
    report.save(options.json, "host", {
        **records, "ratio": {name: [each.value, each.low, each.high]
                             for name, each in ratios.items()}})
    worst = max(of_bar, key=lambda name: of_bar[name])
    report.ratio(of_bar[worst], f"the largest of all over their bars ({worst})")


if __name__ == "__main__":
    main()
