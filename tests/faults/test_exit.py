"""A process ends with work in flight: 200 of 200 end at once, with the code they meant."""
from __future__ import annotations

import concurrent.futures

import pytest

from harness import programs

WAYS = {"end": 0, "exit": 3, "raise": 1, "os-exit": 4, "daemon": 0, "closed": 0, "task-exit": 5,
        "interrupt": 130}
RUNS = 200


def one_exit(way: str) -> str | None:
    """What was wrong with it, or None."""
    done = programs.here().program("exit_in_flight.py", way, timeout_s=30)
    code = done.returncode if done.returncode != -2 else 130
    if code != WAYS[way]:
        return f"{way}: exit code {done.returncode}: {done.stderr[-600:]}"
    for word in ("Fatal", "Segmentation", "Assertion", "AddressSanitizer", "terminate called"):
        if word in done.stderr:
            return f"{way}: {done.stderr[-600:]}"
    return None


@pytest.mark.time_limit(300)
def test_200_of_200_exits_with_work_in_flight_are_clean() -> None:
    ways = [list(WAYS)[number % len(WAYS)] for number in range(RUNS)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [answer for answer in pool.map(one_exit, ways) if answer is not None]
    assert not wrong, f"{len(wrong)} of {RUNS}: {wrong[0]}"


def test_a_connection_left_open_at_the_end_is_no_error_of_ours() -> None:
    """Its descriptor is closed by a finalizer, where nothing can be imported any more."""
    done = programs.here().program("left_open.py", timeout_s=30)
    assert "KeyboardInterrupt" in done.stderr
    assert "ignored" not in done.stderr, done.stderr
