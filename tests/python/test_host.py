"""Programs that host Python (tests/python/host): values, awaits, exceptions, runs, ends."""
from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import ringloop

BUILD = Path(ringloop._native.__file__).absolute().parents[2]
PROGRAM = BUILD / "tests" / "test_host"
ALL = os.environ.get("RINGLOOP_TEST_ALL") == "1"

pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason="this Python has no libpython to be hosted by"),
    pytest.mark.time_limit(120)]


def environment(backend: str) -> dict[str, str]:
    """Without what this process was told: the program finds its Python by itself."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**kept, "RINGLOOP_BACKEND": backend}


def host(backend: str, *words: str, code: int = 0, stderr: str = "") -> str:
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False,
                          timeout=100, env=environment(backend))
    assert (done.returncode, done.stderr) == (code, stderr), (words, done)
    return done.stdout


@pytest.mark.parametrize("scenario", [
    "conversions", "ranges", "objects", "counts", "errors", "threads",
    "kinds", "elsewhere", "visits", "contexts", "cancels", "many_cancels",
    "same_object", "three_levels", "app_throws", "app_raises",
    "cycles", "options", "guest"])
def test_the_scenario_ends_well_and_says_nothing(backend: str, scenario: str) -> None:
    assert host(backend, scenario) == ""


def test_python_that_was_finalized_and_begun_anew_is_refused_in_words(backend: str) -> None:
    said = host(backend, "reborn")
    assert said.startswith("ImportError: ringloop cannot be imported again: Python was finalized")


@pytest.mark.parametrize(("scenario", "code", "stdout"), [
    ("exits_in_python", 7, ""), ("raises_exit", 6, ""), ("exits_inside", 4, "printed\n")])
def test_the_exit_code_is_that_of_whoever_ends_the_program(
        backend: str, scenario: str, code: int, stdout: str) -> None:
    assert host(backend, scenario, code=code) == stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_app_which_ends_cleanly(backend: str, number: signal.Signals) -> None:
    with subprocess.Popen([PROGRAM, "serves"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(backend)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        said, errors = program.communicate(timeout=30)
    assert (program.returncode, said, errors) == (0, "stopping\nstopped\n", "")


WAYS = ("return", "throw", "inside", "exit", "quick", "again")


@pytest.mark.time_limit(900)
def test_ends_with_busy_threads_are_silent_and_quick(backend: str) -> None:
    """Native threads inside Python and about to enter, daemon threads, objects that are static."""
    for turn in range(500 if ALL else 12):
        way = WAYS[turn % len(WAYS)]
        begin = time.monotonic()
        said = host(backend, "ends", way)
        assert time.monotonic() - begin < (20 if "sanitize" in str(BUILD) else 5)
        assert said == ("" if way == "quick" else "atexit\n"), way


def test_the_library_of_the_program_and_of_the_package_are_one() -> None:
    """Two would be two runtimes: the loop's ring would not be the native code's."""
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    lines = [line for line in needed.splitlines() if "libringloop" in line]
    assert len(lines) == 1
