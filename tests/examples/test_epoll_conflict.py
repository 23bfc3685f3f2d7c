"""examples/epoll_conflict: a compute library's loop and the program's, on the same sockets."""
from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from examples.running import LIMIT_S
from harness.commands import ROOT

ROUNDS = 1000


def conflict(loop: str, **changes: str) -> list[str]:
    command = [sys.executable, str(ROOT / "examples" / "epoll_conflict" / "conflict.py"),
               "--loop", loop, "--rounds", str(ROUNDS)]
    done = subprocess.run(command, env={**os.environ, **changes}, capture_output=True, text=True,
                          check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_nothing_goes_wrong_on_ringloop(backend: str) -> None:
    assert conflict("ringloop", RINGLOOP_BACKEND=backend) == [
        f"joining the loop's epoll set: 0 of {ROUNDS} refused with errno 17",
        f"wake-ups of {ROUNDS}: {ROUNDS} of the loop, {ROUNDS} of the compute loop",
        "watched by a foreign epoll set, too: []",
        "  told: a watched descriptor can no longer be polled; its reader or writer was removed",
        "a watched duplicate is closed: the process ends with 0",
        "conflicts=0"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_elsewhere_it_does(loop: str) -> None:
    pytest.importorskip(loop)
    lines = conflict(loop)
    assert f"{ROUNDS} of {ROUNDS} refused with errno 17" in lines[0]
    found = re.fullmatch(r"conflicts=(\d+)", lines[-1])
    assert found is not None and int(found[1]) >= ROUNDS
