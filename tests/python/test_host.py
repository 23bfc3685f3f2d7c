"""Programs that host Python (tests/python/host): values, awaits, exceptions, runs, ends."""
from __future__ import annotations

import concurrent.futures
import itertools
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import ringloop
from harness import limits

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
    "conversions", "ranges", "objects", "counts", "errors", "threads", "lends",
    "kinds", "elsewhere", "visits", "contexts", "cancels", "many_cancels",
    "same_object", "three_levels", "app_throws", "app_raises",
    "cycles", "options", "guest", "processes", "subinterpreters"])
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


def test_two_hundred_runs_in_a_process_keep_no_memory(backend: str) -> None:
    assert host(backend, "cycles", "200" if ALL else "40") == ""


# way: the exit code
WAYS = {"return": 0, "code": 5, "throw": 11, "raise": 12, "sys-exit": 7, "exit-inside": 4,
        "terminate": 0, "interrupt": 0, "again": 0, "thread": 0, "exit": 3, "quick": 6}
STATES = ("idle", "threads", "visitors", "offloaded", "statics", "in_python", "children",
          "subinterpreter", "all")
LIMIT_S = 2.0 * limits.SLOWDOWN


def one_end(backend: str, way: str, state: str) -> tuple[float, str | None]:
    """How long it took, and what was wrong with it."""
    name = f"{way} with {state}"
    try:
        done = subprocess.run([PROGRAM, "ends", way, state], capture_output=True, text=True,
                              check=False, timeout=100, env=environment(backend))
    except subprocess.TimeoutExpired:
        return 100, f"{name}: no end"
    over = time.monotonic()
    if (done.returncode, done.stderr) != (WAYS[way], "") or "leaving " not in done.stdout:
        return 0, f"{name}: {done.returncode}: {done.stdout}{done.stderr[-1200:]}"
    seconds = over - float(done.stdout.split()[-1])
    return seconds, f"{name}: {seconds:.1f} s" if seconds > LIMIT_S else None


@pytest.mark.time_limit(1800)
def test_ends_of_every_kind_are_silent_and_quick(backend: str) -> None:
    """With native threads that go on after the interpreter, children, subinterpreters, statics."""
    every = list(itertools.product(WAYS, STATES))
    chosen = (every * 5)[:500] if ALL else random.sample(every, 24)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: one_end(backend, *pair), chosen))
    wrong = [answer for _, answer in found if answer is not None]
    print(f"{len(chosen)} ends, the slowest in {max(seconds for seconds, _ in found):.2f} s")
    assert not wrong, f"{len(wrong)} of {len(chosen)}: {wrong[:3]}"


def test_the_library_of_the_program_and_of_the_package_are_one() -> None:
    """Two would be two runtimes: the loop's ring would not be the native code's."""
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    lines = [line for line in needed.splitlines() if "libringloop" in line]
    assert len(lines) == 1
