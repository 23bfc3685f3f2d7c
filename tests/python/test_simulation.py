"""The Python loop and its transports over the simulated kernel: no fault at any step may break
asyncio's promises, lose bytes or leave anything behind.

RINGLOOP_SIM_SEEDS=1000  random runs for each scenario (default 60)
RINGLOOP_SIM_STRIDE=3    every third single fault only
"""
from __future__ import annotations

import ast
import errno
import os

import pytest

from ringloop import _native

if not hasattr(_native, "Simulation"):
    pytest.skip("built without RINGLOOP_TEST_BACKEND", allow_module_level=True)

from simulated import datagrams, harness, names
from simulated.scenarios import SCENARIOS

SCENARIOS = SCENARIOS | datagrams.SCENARIOS | names.SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_single_fault_at_any_step_hurts(name: str) -> None:
    assert harness.exhaust(name, SCENARIOS[name]) > 25


@pytest.mark.parametrize("name", SCENARIOS)
def test_equal_seeds_make_equal_runs(name: str) -> None:
    options = harness.options_of(29)
    first, second = (harness.run(SCENARIOS[name], **options) for _ in range(2))
    assert first.steps == second.steps


@pytest.mark.parametrize("name", SCENARIOS)
def test_seeded_chaos_hurts_nothing(name: str) -> None:
    harness.chaos(name, SCENARIOS[name], range(int(os.environ.get("RINGLOOP_SIM_SEEDS", "60"))))


def test_a_send_that_is_cancelled_unasked_is_sent_again() -> None:
    """It was dropped without a word, and writing stayed paused for ever."""
    main = SCENARIOS["flow_control"]
    sends = [number for number, step in enumerate(
        step for step in harness.run(main).steps if step.startswith("work")) if " send " in step]
    assert sends
    for number in sends[:5]:
        outcome = harness.run(main, plan=[f"work:{number}:error:{errno.ECANCELED}"])
        assert "FAULT error" in "".join(outcome.steps)
        assert not outcome.thrown and not outcome.broken, outcome.broken


def test_an_unexpected_end_is_noticed() -> None:
    """The harness itself: it must be able to fail."""
    async def raises(world: object) -> None:
        raise ZeroDivisionError

    assert harness.run(raises).broken


def test_a_deadlock_that_the_driver_reports_is_noticed() -> None:
    async def waits_for_ever(world: harness.World) -> None:
        world.simulation.on_failure("deadlock")

    assert any("deadlock" in rule for rule in harness.run(waits_for_ever).broken)


def test_a_task_that_waits_for_nothing_is_noticed() -> None:
    """For the harness's own limit: ten minutes of the virtual clock, no time of ours."""
    async def waits_for_nothing(world: harness.World) -> None:
        await world.loop.create_future()

    assert any("TimeoutError" in rule for rule in harness.run(waits_for_nothing).broken)


@pytest.mark.skipif("RINGLOOP_SIM_REPLAY" not in os.environ, reason="for single runs by hand")
def test_replay() -> None:
    name, *pairs = os.environ["RINGLOOP_SIM_REPLAY"].split()
    options = {key: ast.literal_eval(value) for key, value in
               (pair.split("=", 1) for pair in pairs)}
    outcome = harness.run(SCENARIOS[name], **options)
    print("\n".join(outcome.steps))
    assert not outcome.broken, f"{outcome.broken}, ended by {outcome.thrown}\n{outcome.report}"
