"""The judge of soak runs finds a leak in noise, and takes noise and steps for no leak."""
from __future__ import annotations

import itertools
import random

import pytest

from soak.slope import judge, theil_sen

BOUND = {"bound": 0.5, "drift": 100.0}


def noise(count: int, seed: int) -> list[float]:
    """Tens of blocks up and down, some far away, as after a late garbage collection."""
    source = random.Random(seed)
    return [source.gauss(1e6, 15) + (source.random() < 0.05) * source.uniform(0, 5_000)
            for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_of_one_block_a_life_is_found_in_500_noisy_lives(seed: int) -> None:
    samples = [value + number for number, value in enumerate(noise(500, seed))]
    verdict = judge(samples, **BOUND)
    assert verdict.leaks and verdict.slope == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [12, 60, 500])
def test_noise_is_no_leak(seed: int, count: int) -> None:
    assert not judge(noise(count, seed), **BOUND).leaks


@pytest.mark.parametrize("at", [50, 150, 250, 400])
def test_a_step_is_no_leak(at: int) -> None:
    samples = [value + 10_000 * (number >= at) for number, value in enumerate(noise(500, 1))]
    assert not judge(samples, **BOUND).leaks


def test_a_warm_up_is_no_leak() -> None:
    samples = [1e6 + 100 * min(number, 120) for number in range(500)]
    assert not judge(samples, **BOUND).leaks


def test_a_leak_behind_steps_and_a_falling_warm_up_is_found() -> None:
    samples = [1e6 - 1_000 * min(number, 100) + 5_000 * (number // 150) + 2 * number
               for number in range(500)]
    assert judge(samples, **BOUND).leaks


def test_a_short_run_allows_the_same_drift_in_fewer_samples() -> None:
    assert judge([0.0] * 20, **BOUND).bound == pytest.approx(100 / 15)
    assert judge([0.0] * 2_000, **BOUND).bound == 0.5


def test_one_sample_and_none_are_no_leak() -> None:
    assert not judge([], **BOUND).leaks and not judge([1.0], **BOUND).leaks
    assert theil_sen([]) == 0


def test_outliers_do_not_move_the_slope() -> None:
    samples = [float(number) for number in range(100)]
    for number in itertools.islice(range(100), 0, 100, 10):
        samples[number] = 1e9
    assert theil_sen(samples) == pytest.approx(1, abs=0.2)
