"""The table of ./dev bench loops, for a terminal: a line for each bar, under its cell."""
from __future__ import annotations

from cells.model import CPU, OURS, WALL, Cell, show
from cells.results import Results, Verdict
from common import report, stats

HEAD = ("cell", "ringloop", "wall", "compared with", "ratio [95 %]", "wall", "bar", "")


def table(results: Results) -> str:
    rows: list[list[str]] = []
    for cell in results.cells:
        lines = [_line(cell, verdict) for verdict in results.verdicts(cell)]
        ours = [results.median(cell, OURS, figure) for figure in (cell.main, _other(cell))]
        figures = [("-" if value is None else show(figure, value))
                   for figure, value in zip((cell.main, _other(cell)), ours)]
        for number, line in enumerate(lines):
            rows.append([cell.name, *figures, *line] if number == 0 else ["", "", "", *line])
    return report.table(HEAD, rows)


def _other(cell: Cell) -> str:
    return CPU if cell.main == WALL else WALL


def _line(cell: Cell, verdict: Verdict) -> list[str]:
    bar, ratio = verdict.bar, verdict.ratio
    if ratio is None:
        value = "not measured"
    elif bar is not None and bar.against is None:
        value = _interval(bar.figure, ratio)
    else:
        value = str(ratio)
    verdict_word = {True: "met", False: "SHORT", None: ""}[verdict.met]
    wall = "" if verdict.wall is None else f"{verdict.wall.value:.3g}"
    return [verdict.against, value, wall, "" if bar is None else str(bar), verdict_word]


def _interval(figure: str, value: stats.Ratio) -> str:
    return f"{show(figure, value.value)} [{show(figure, value.low)}, {show(figure, value.high)}]"


def failures(results: Results) -> list[str]:
    return [f"{subject} cannot do \"{cell}\": {why[0]}"
            + (f" ({len(why)} times)" if len(why) > 1 else "")
            for cell, found in results.failures.items() for subject, why in found.items()]


def summary(results: Results) -> str:
    verdicts = [verdict.met for cell in results.cells for verdict in results.verdicts(cell)
                if verdict.bar is not None]
    return (f"{verdicts.count(True)} bars met, {verdicts.count(False)} short, "
            f"{verdicts.count(None)} not measured")
