"""./dev soak in short (with --all the whole of it), and that each kind of leak is found."""
from __future__ import annotations

import os
import subprocess

import pytest

from harness import programs

SOAK = programs.ROOT / "tests" / "soak"
WHOLE = os.environ.get("RINGLOOP_TEST_ALL") == "1"
AMOUNT = ("--lives", "500", "--seconds", "60") if WHOLE else ("--lives", "20", "--seconds", "4")
FOUND_AS = {"blocks": "allocated blocks", "memory": "anonymous KiB", "descriptor": "descriptors",
            "thread": "threads", "child": "child processes", "loop": "native loops"}


def soak(*arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return programs.here().run(str(SOAK), *arguments, timeout_s=timeout_s)


@pytest.mark.time_limit(900)
def test_a_soak_run_leaves_nothing() -> None:
    done = soak(*AMOUNT, timeout_s=850)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("nothing leaked\n")


@pytest.mark.parametrize("leak", FOUND_AS)
def test_a_soak_run_finds_a_leak(leak: str) -> None:
    done = soak("--lives", "12", "--seconds", "0", "--backend", "epoll", "--leak", leak,
                timeout_s=60)
    assert done.returncode == 1, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("leaked: ")]
    assert any(FOUND_AS[leak] in line for line in told), told
