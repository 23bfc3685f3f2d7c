"""The three loops that an await of ours may run under, each measured in a process of its own.

The benchmark's file is run again with --host NAME and prints its figures as JSON. What such a
process writes to stderr is seen.
"""
from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

HOSTS = ("asyncio", "uvloop", "ringloop")


def measured(file: str, host: str, *words: str) -> Any:
    """What `file` prints for that host. CalledProcessError if it fails."""
    done = subprocess.run([sys.executable, file, "--host", host, *words], check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def shuffled() -> list[str]:
    """The hosts of one round."""
    return random.sample(HOSTS, len(HOSTS))


def rounds(file: str, count: int) -> dict[str, list[dict[str, float]]]:
    """The figures of each host, a dictionary a round."""
    found: dict[str, list[dict[str, float]]] = {host: [] for host in HOSTS}
    for _ in range(count):
        for host in shuffled():
            found[host].append(measured(file, host))
    return found
