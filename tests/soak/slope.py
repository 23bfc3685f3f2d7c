"""Whether a row of samples grows: the judge of a soak run. Pure arithmetic.

Samples are noisy and step: a cache fills, an arena is opened, a garbage collection comes later. A
leak does neither, it goes on. So the samples behind a warm-up are cut into thirds, each third gets
the median of the slopes between its samples (Theil and Sen's, which outliers do not move), and
there is a leak only if every third grows faster than the bound.
"""
from __future__ import annotations

import dataclasses
import itertools
import statistics
from typing import Sequence

WARM_UP = 0.25      # of the samples, not looked at
STRETCHES = 3


@dataclasses.dataclass(frozen=True)
class Verdict:
    slope: float    # a sample, the slowest third's
    bound: float

    @property
    def leaks(self) -> bool:
        return self.slope > self.bound


def theil_sen(samples: Sequence[float]) -> float:
    """The median slope between two samples; 0 for fewer than two."""
    slopes = [(later - earlier) / (j - i) for (i, earlier), (j, later)
              in itertools.combinations(enumerate(samples), 2)]
    return statistics.median(slopes) if slopes else 0.0


def judge(samples: Sequence[float], *, bound: float, drift: float) -> Verdict:
    """`bound`: what a leak must exceed, a sample. `drift`: how much the samples that are looked at
    may grow in all without a leak; that is what the bound of a short run comes from."""
    kept = samples[int(len(samples) * WARM_UP):]
    size = len(kept) // STRETCHES
    thirds = [kept[number * size:(number + 1) * size] for number in range(STRETCHES)]
    slope = min(theil_sen(third) for third in thirds)
    return Verdict(slope, max(bound, drift / max(len(kept), 1)))
