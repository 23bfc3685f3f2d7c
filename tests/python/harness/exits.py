"""Programs that end with work in flight (tests/faults/programs/exit_in_flight.py), and what was
wrong with how they did."""
from __future__ import annotations

import re
import subprocess
import time

from harness import limits, programs
from harness.commands import without_slow_steps

WAYS = {"end": 0, "exit": 3, "raise": 1, "os-exit": 4, "callback-exit": 5, "timer-exit": 6,
        "thread-exit": 7, "handler-exit": 8, "terminate": -15, "interrupt": -2,
        "run-interrupt": -2, "stop": 0, "daemon": 0, "daemon-exit": 9, "closed": 0, "fork": 10}
LIMIT_S = 2.0 * limits.SLOWDOWN
TROUBLE = ("Fatal", "Segmentation", "Assertion", "AddressSanitizer", "terminate called",
           "Event loop is closed")

_OWN_TRACEBACK = re.compile(r"\ATraceback \(most recent call last\):\n.*"
                            r"^(RuntimeError: meant|KeyboardInterrupt)$", re.DOTALL | re.MULTILINE)


def one_exit(way: str, state: str, loop: str = "ringloop", *,
             silent: bool = False) -> tuple[float, str | None]:
    """How long it took, and what was wrong with it. `silent`: nothing but Python's own traceback of
    what ended it may be on stderr."""
    name = f"{way} with {state} under {loop}"
    try:
        done = programs.here().program("exit_in_flight.py", way, state, loop, timeout_s=60)
    except subprocess.TimeoutExpired:
        return 60, f"{name}: no end"
    over = time.monotonic()
    if done.returncode != WAYS[way] or "leaving " not in done.stdout:
        return 0, f"{name}: exit code {done.returncode}: {done.stderr[-600:]}"
    seconds = over - float(done.stdout.split()[-1])
    if seconds > LIMIT_S:
        return seconds, f"{name}: {seconds:.1f} s"
    for word in TROUBLE:
        if word in done.stderr:
            return seconds, f"{name}: {done.stderr[-600:]}"
    if silent and _OWN_TRACEBACK.sub("", without_slow_steps(done.stderr), count=1).strip():
        return seconds, f"{name}: {done.stderr[-1200:]}"
    return seconds, None
