"""A process ends with work in flight, in each way and state: at once, with the code it meant."""
from __future__ import annotations

import concurrent.futures
import itertools
import os

import pytest

from harness import programs
from harness.exits import WAYS, one_exit

STATES = ("idle", "receive", "send", "connect", "datagrams", "files", "sendfile", "pipes", "child",
          "handshake", "executor", "timers", "callbacks", "kernel", "bridge",
          "send,handshake,child", "all")
RUNS = 500 if os.environ.get("RINGLOOP_TEST_ALL") == "1" else 120


@pytest.mark.time_limit(900)
def test_exits_in_any_state_take_less_than_two_seconds_and_mean_their_code() -> None:
    # The number of ways and that of states have no common divisor: every pair has its turn.
    pairs = list(itertools.islice(zip(itertools.cycle(WAYS), itertools.cycle(STATES)), RUNS))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: one_exit(*pair), pairs))
    wrong = [answer for _, answer in found if answer is not None]
    print(f"{RUNS} exits, the slowest in {max(seconds for seconds, _ in found):.2f} s")
    assert not wrong, f"{len(wrong)} of {RUNS}: {wrong[:3]}"


@pytest.mark.parametrize("way", ["end", "raise", "terminate", "closed"])
def test_a_sendfile_that_is_thrown_away_may_resume_reading_of_a_transport_at_its_end(way: str
                                                                                     ) -> None:
    """The collector ends both, in this order: an assertion of the transport's failed."""
    assert one_exit(way, "sendfile")[1] is None


def test_a_connection_left_open_at_the_end_is_no_error_of_ours() -> None:
    """Its descriptor is closed by a finalizer, where nothing can be imported any more."""
    done = programs.here().program("left_open.py", timeout_s=30)
    assert "KeyboardInterrupt" in done.stderr
    assert "ignored" not in done.stderr, done.stderr
