"""What a cell is: a name, how one round of it is measured for one subject, and its bars.

A subject is a loop by the name of its package, or another way to do the same ("executor",
"blocking"). Figures are costs, lower is better, but for those whose bars say otherwise; their
units are in their names.
"""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cells.methods import Method

OURS = "ringloop"
BEST = "best peer"      # of all rivals of the cell, the one that costs least
Figures = dict[str, float]
CPU, WALL, P50, P99 = "cpu_s", "wall_s", "p50_s", "p99_s"


class Unable(Exception):
    """This subject cannot do this cell here; the sentence says why."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """`figure` of `against` over ours is at least `limit`; or with `at_most`, ours over theirs is
    at most that. Without `against` our figure itself is compared."""
    limit: float
    against: str | None = None
    figure: str = CPU
    at_most: bool = False

    def __str__(self) -> str:
        what = label(self.figure)
        sign = "<=" if self.at_most else ">="
        if self.against is None:
            return f"{what} {sign} {show(self.figure, self.limit)}"
        over = f"over {self.against}" if self.at_most else self.against
        return f"{what} {over} {sign} {self.limit:g}"


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    group: str
    method: Method
    rivals: tuple[str, ...]
    bars: tuple[Bar, ...]
    main: str = CPU


def label(figure: str) -> str:
    """What it is called in tables."""
    return {CPU: "CPU"}.get(figure, figure.removesuffix("_s").removesuffix("_kib"))


UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def show(figure: str, value: float) -> str:
    """A figure with its unit."""
    if figure.endswith("_kib"):
        return f"{value:.3g} KiB"
    if not figure.endswith("_s"):
        return f"{value:.3g}"
    for size, unit in UNITS:
        if value >= size:
            break
    return f"{value / size:.3g} {unit}"
