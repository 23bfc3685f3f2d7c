"""./dev bench interop: Asio's reads in our tasks, libuv's timers on our ring.

CPU per read of one byte, which is there already or is waited for: awaited in a task (use_task, the
io_context hosts the scheduler) over awaited in Asio's own coroutine. CPU per tick of a millisecond:
a uv_loop_t on our ring over one on its own. One process; the kinds take turns in each round.

    --rounds N   --json FILE
"""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from common import placing, report, stats

PAIRS = {"Asio read, ready": ("read_ready_task", "read_ready_asio"),
         "Asio read, waits": ("read_waits_task", "read_waits_asio"),
         "libuv timer": ("timer_guest", "timer_libuv")}


def measure(rounds: int) -> tuple[dict[str, list[float]], dict[str, stats.Ratio]]:
    """Nanoseconds of each kind, and the ratio of each pair."""
    program = Path(os.environ["RINGLOOP_BUILD"]) / "bench" / "cpp" / "interop_costs"
    if not program.exists():
        raise SystemExit("built without Asio or libuv: apt-get install libasio-dev libuv1-dev")
    done = subprocess.run([str(program), str(rounds)], stdout=subprocess.PIPE, text=True,
                          check=True, preexec_fn=lambda: placing.pin({0}) and None)
    found: dict[str, list[float]] = json.loads(done.stdout)
    ratios = {name: stats.paired(found[ours], found[theirs])
              for name, (ours, theirs) in PAIRS.items()}
    return found, ratios


def main() -> None:
    options = report.options("interop", __doc__, rounds=21).parse_args()
    found, ratios = measure(options.rounds)
    rows = [[name, *(f"{sorted(found[each])[options.rounds // 2]:.0f} ns" for each in pair),
             str(ratios[name])] for name, pair in PAIRS.items()]
    print(report.table(["CPU each", "with ringloop", "alone", "ratio"], rows))
    report.save(options.json, "interop", {
        "ns": found, "ratio": {name: [each.value, each.low, each.high]
                               for name, each in ratios.items()}})
    report.ratio(max(each.value for each in ratios.values()),
                 "CPU with ringloop over alone, the largest of 3")


if __name__ == "__main__":
    main()
