"""Programs of the build that the cells start."""
from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from common import placing

REAL_TIME = "RINGLOOP_BENCH_REAL_TIME"     # "0": at normal priority


@contextlib.contextmanager
def normal_priority() -> Iterator[None]:
    """For what is started inside: of a program at real-time priority that never rests the kernel
    takes away a twentieth of each second at once, and no tail of it means anything."""
    before = os.environ.get(REAL_TIME, "1")
    os.environ[REAL_TIME] = "0"
    try:
        yield
    finally:
        os.environ[REAL_TIME] = before


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
