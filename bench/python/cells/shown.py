"""The table of ./dev bench loops, for a terminal: a line for each bar, under its cell."""
from __future__ import annotations

from cells.model import CPU, OURS, WALL, Cell, label, show
from cells.results import Results, Verdict
from common import report, stats

HEAD = ("cell", "ringloop", "beside", "compared with", "ratio [95 %]", "beside", "bar", "")


def table(results: Results) -> str:
    rows: list[list[str]] = []
    for cell in results.cells:
        lines = [_line(cell, verdict) for verdict in results.verdicts(cell)]
        ours = [_ours(results, cell, figure) for figure in (cell.main, _other(cell.main))]
        for number, line in enumerate(lines or [[""] * 5]):
            rows.append([cell.name, *ours, *line] if number == 0 else ["", "", "", *line])
    return report.table(HEAD, rows)


def _other(figure: str) -> str:
    """What stands beside a figure."""
    return CPU if figure == WALL else WALL


def _ours(results: Results, cell: Cell, figure: str) -> str:
    value = results.median(cell, OURS, figure)
    return "" if value is None else f"{label(figure)} {show(figure, value)}"


def _line(cell: Cell, verdict: Verdict) -> list[str]:
    bar, ratio = verdict.bar, verdict.ratio
    figure = cell.main if bar is None else bar.figure
    if ratio is None:
        value = "not measured"
    elif bar is not None and bar.against is None:
        value = _interval(figure, ratio)
    else:
        value = f"{label(figure)} {ratio}"
    beside = "" if verdict.beside is None else f"{label(_other(figure))} {verdict.beside.value:.3g}"
    word = {True: "met", False: "SHORT", None: ""}[verdict.met]
    return [verdict.against, value, beside, "" if bar is None else str(bar), word]


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
