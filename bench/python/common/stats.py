"""Paired ratios with a 95 % interval. Values of one round share its noise."""
from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

# Student's t, two-sided 95 %, by degrees of freedom; the last entry serves all above.
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
        2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04)


@dataclasses.dataclass(frozen=True)
class Ratio:
    value: float          # geometric mean of the rounds' ratios
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def paired(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """over[i] / under[i] of each round i."""
    logs = [math.log(a / b) for a, b in zip(over, under, strict=True)]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Ratio(math.exp(mean), 0.0, math.inf)
    t = _T95[min(len(logs) - 2, len(_T95) - 1)]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
