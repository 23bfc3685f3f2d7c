"""Paired ratios with a 95 % interval. Values of one round share its noise.

By order, not by mean and deviation: on a machine that others share, the host now and then takes a
processor away for most of a round, and one such round must not decide.
"""
from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Ratio:
    value: float          # median of the rounds' ratios
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def paired(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """over[i] / under[i] of each round i."""
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    cut = _outside(len(ratios))
    return Ratio(statistics.median(ratios), ratios[cut], ratios[-1 - cut])


def _outside(count: int) -> int:
    """How many values to leave out at each end so that the rest spans the true median in at least
    95 % of all samples. (Fewer than 6 values span it less often than that, all of them.)"""
    cut, below = 0, 1.0
    while 2 * (below + math.comb(count, cut + 1)) <= 0.05 * 2**count:
        cut += 1
        below += math.comb(count, cut)
    return cut


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
