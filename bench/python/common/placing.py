"""Where a process runs: cores, real-time priority where it is allowed, and the CPU time it took."""
from __future__ import annotations

import os
from pathlib import Path

REAL_TIME_PRIORITY = 20


def pin(cores: set[int], *, real_time: bool = True) -> str:
    """Puts this process on `cores` (those that exist). Says what came of it."""
    there = cores & set(range(os.cpu_count() or 1)) or {0}
    os.sched_setaffinity(0, there)
    scheduling = "normal"
    if real_time:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REAL_TIME_PRIORITY))
            scheduling = "fifo"
        except PermissionError:
            pass
    return f"cores {sorted(there)}, {scheduling}"


def cpu_seconds(pid: int) -> float:
    """On-CPU time of every thread that the process has now, the kernel's io_uring workers too."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1e9
