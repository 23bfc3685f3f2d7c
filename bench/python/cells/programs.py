"""Programs of the build that the cells start."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from common import placing

REAL_TIME = "RINGLOOP_BENCH_REAL_TIME"     # "0": at normal priority


def pin(cores: set[int]) -> None:
    placing.pin(cores, real_time=os.environ.get(REAL_TIME, "1") != "0")


def pinned(*cores: int) -> Callable[[], None]:
    """For preexec_fn."""
    return lambda: pin(set(cores))


def load_client() -> str:
    return str(Path(os.environ["RINGLOOP_BUILD"], "bench", "load", "loopclient"))


def http_client() -> str:
    return str(Path(os.environ["RINGLOOP_BUILD"], "bench", "load", "loadclient"))


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][-300:] if lines else "it said nothing"


def listener() -> subprocess.Popen[str]:
    """Accepts and holds, on core 1; its first line is the port. Ends when its stdin is closed."""
    return subprocess.Popen([load_client(), "listen"], stdin=subprocess.PIPE, text=True,
                            stdout=subprocess.PIPE, preexec_fn=pinned(1))
