"""What the rounds have found: figures by cell, subject and round, and which bars are met.

A ratio compares two values of one round; rounds in which either failed do not count.
"""
from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from cells.model import BEST, CPU, OURS, WALL, Bar, Cell, Figures
from common import stats

GIVE_UP = 2         # failures of a rival in a cell, after which it is left out of it
NOT_PEERS = ("zuvloop", "executor", "blocking", "asyncio")   # "best peer" means none of these


@dataclasses.dataclass(frozen=True)
class Verdict:
    bar: Bar | None     # None: a rival without one
    against: str        # which rival, "" for a figure alone
    ratio: stats.Ratio | None
    beside: stats.Ratio | None      # of wall time beside CPU, and of CPU beside wall time

    @property
    def met(self) -> bool | None:
        """None: not measured."""
        if self.bar is None or self.ratio is None:
            return None
        value = self.ratio.value
        return value <= self.bar.limit if self.bar.at_most else value >= self.bar.limit


class Results:
    def __init__(self, cells: list[Cell], subjects: dict[str, list[str]]) -> None:
        self.cells = cells
        self.subjects = subjects        # of each cell, ours first
        self.values: dict[str, dict[str, dict[int, Figures]]] = {
            cell.name: {subject: {} for subject in subjects[cell.name]} for cell in cells}
        self.failures: dict[str, dict[str, list[str]]] = {cell.name: {} for cell in cells}

    def add(self, cell: Cell, subject: str, round_number: int, figures: Figures) -> None:
        self.values[cell.name][subject][round_number] = figures

    def fail(self, cell: Cell, subject: str, why: str) -> None:
        self.failures[cell.name].setdefault(subject, []).append(why)

    def given_up(self, cell: Cell, subject: str) -> bool:
        return len(self.failures[cell.name].get(subject, ())) >= GIVE_UP

    def ours_failed(self) -> list[str]:
        return [f"{cell}: {found[OURS][0]}" for cell, found in self.failures.items()
                if OURS in found]

    def median(self, cell: Cell, subject: str, figure: str) -> float | None:
        found = [each[figure] for each in self.values[cell.name].get(subject, {}).values()
                 if figure in each]
        return statistics.median(found) if found else None

    def ratio(self, cell: Cell, over: str, under: str, figure: str) -> stats.Ratio | None:
        one, other = (self.values[cell.name].get(name, {}) for name in (over, under))
        rounds = [number for number in one if number in other
                  and figure in one[number] and other[number].get(figure, 0) > 0]
        if not rounds:
            return None
        return stats.paired([one[number][figure] for number in rounds],
                            [other[number][figure] for number in rounds])

    def verdicts(self, cell: Cell) -> list[Verdict]:
        """One for each bar, then one for each rival that has none."""
        found, named = [], set()
        for bar in cell.bars:
            verdict = self._verdict(cell, bar)
            found.append(verdict)
            named.add(verdict.against)
        for rival in self.subjects[cell.name][1:]:
            if rival not in named and (ratio := self.ratio(cell, rival, OURS, cell.main)):
                found.append(Verdict(None, rival, ratio, self.ratio(cell, rival, OURS, WALL)))
        return found

    def _verdict(self, cell: Cell, bar: Bar) -> Verdict:
        if bar.against is None:
            ours = [each[bar.figure] for each in self.values[cell.name][OURS].values()]
            return Verdict(bar, "", stats.paired(ours, [1.0] * len(ours)) if ours else None, None)
        if bar.against != BEST:
            return self._against(cell, bar, bar.against)
        peers = [self._against(cell, bar, rival) for rival in self.subjects[cell.name][1:]
                 if rival not in NOT_PEERS]
        measured = [each for each in peers if each.ratio is not None]
        return min(measured, key=lambda each: each.ratio.value if each.ratio else 0.0,
                   default=Verdict(bar, BEST, None, None))

    def _against(self, cell: Cell, bar: Bar, rival: str) -> Verdict:
        pair = (OURS, rival) if bar.at_most else (rival, OURS)
        other = CPU if bar.figure == WALL else WALL
        return Verdict(bar, rival, self.ratio(cell, *pair, bar.figure),
                       self.ratio(cell, *pair, other))

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {cell.name: {
            "group": cell.group, "main": cell.main,
            "values": {subject: [{"round": number, **figures}
                                 for number, figures in rounds.items()]
                       for subject, rounds in self.values[cell.name].items()},
            "failures": self.failures[cell.name],
            "bars": [_as_json(each) for each in self.verdicts(cell) if each.bar is not None],
        } for cell in self.cells}


def _as_json(verdict: Verdict) -> dict[str, Any]:
    ratio = verdict.ratio
    return {"bar": str(verdict.bar), "against": verdict.against, "met": verdict.met,
            "ratio": None if ratio is None else [ratio.value, ratio.low, ratio.high]}
