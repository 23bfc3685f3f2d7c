"""A process ends while coroutines of extension modules are in flight, under each loop: at once,
with the code it meant, without a word of ours. Also while threads are busy that nobody can stop."""
from __future__ import annotations

import concurrent.futures
import importlib.util
import itertools
import os
import random

import pytest

from harness import extensions
from harness.exits import WAYS, one_exit

STATES = ("iterating", "calling", "awaiting", "offloaded", "elsewhere", "keeping", "shielded",
          "produced", "together", "hooked", "graphed", "bridge")
LOOPS = tuple(loop for loop in ("ringloop", "asyncio", "uvloop") if importlib.util.find_spec(loop))
ALL = os.environ.get("RINGLOOP_TEST_ALL") == "1"
RUNS = 500 if ALL else 12

pytestmark = pytest.mark.skipif(not extensions.FOLDER.is_dir(),
                                reason="no extension modules beside this package")


def several(exits: list[tuple[str, str, str]]) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: one_exit(*each, silent=True), exits))
    wrong = [answer for _, answer in found if answer is not None]
    print(f"{len(exits)} exits, the slowest in {max(seconds for seconds, _ in found):.2f} s")
    assert not wrong, f"{len(wrong)} of {len(exits)}: {wrong[:3]}"


@pytest.mark.time_limit(900)
def test_exits_with_native_work_in_flight_are_silent_and_quick() -> None:
    # Not a fork inside of uvloop: it goes on in the child, where no loop is the running one, so
    # new awaits are refused, and Python tells of coroutines that they were given.
    every = [each for each in itertools.product(WAYS, STATES, LOOPS)
             if (each[0], each[2]) != ("fork", "uvloop")]
    # A part of them by chance: a failure is told with the way, the state and the loop.
    several(random.sample(every, min(RUNS, len(every))))


def test_a_daemon_thread_may_end_in_a_function_that_native_code_calls() -> None:
    """It used to take the process down ("exception not rethrown"): CPython before 3.14 unwinds the
    stack of such a thread, and a coroutine took that for an exception of its own."""
    several([("daemon", "interrupted", loop) for loop in LOOPS for _ in range(10 if ALL else 2)])


def test_a_native_thread_may_ask_for_the_gil_as_the_interpreter_ends() -> None:
    """A handler for every exception that it had used to take the process down in the same way."""
    several(2 * [(way, "asking", loop) for way in ("end", "exit") for loop in LOOPS])


def test_a_thread_that_goes_on_for_a_minute_is_left_behind() -> None:
    """The loop's end used to wait for it. Where the interpreter ends: a close() still waits."""
    ways = [way for way in WAYS if way in ("end", "exit", "raise", "callback-exit", "daemon-exit")]
    every = list(itertools.product(ways, ("overlong",), LOOPS))
    several(every if ALL else random.sample(every, 2))
