"""The chart of ./dev bench loops: uvloop's cost over ringloop's and over the best peer's, cell by
cell; SVG for light and dark pages.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

from cells.model import OURS
from cells.results import NOT_PEERS, Results

THEMES = {
    "light": {"text": "#1f2328", "grid": "#d0d7de", "peer": "#b8c0c8", "own": "#0a66c2"},
    "dark": {"text": "#e6edf3", "grid": "#30363d", "peer": "#57606a", "own": "#58a6ff"},
}
Row = tuple[str, float, float]      # cell, ours, the best peer's (uvloop itself: 1)


def rows(results: Results) -> list[Row]:
    """Cells that have a bar against uvloop's cost."""
    found = []
    for cell in results.cells:
        ours = results.ratio(cell, "uvloop", OURS, cell.main)
        if ours is None or not any(bar.against == "uvloop" and not bar.at_most
                                   for bar in cell.bars):
            continue
        peers = [results.ratio(cell, "uvloop", rival, cell.main)
                 for rival in results.subjects[cell.name][1:] if rival not in NOT_PEERS]
        found.append((cell.name, ours.value, max(each.value for each in peers if each)))
    return found


def draw(results: Results, folder: Path) -> list[Path]:
    """Writes loops-light.svg and loops-dark.svg; returns their paths."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, theme in THEMES.items():
        figure = _figure(rows(results), theme, pyplot)
        written.append(folder / f"loops-{name}.svg")
        figure.savefig(written[-1], transparent=True)
        pyplot.close(figure)
    return written


def _figure(found: list[Row], theme: dict[str, str], pyplot: Any) -> Any:
    figure, axis = pyplot.subplots(figsize=(10, 1 + 0.26 * len(found)), layout="constrained")
    places = range(len(found))
    bars = axis.barh(places, [ours for _, ours, _ in found], 0.7, color=theme["own"],
                     label="ringloop")
    axis.barh(places, [peer for _, _, peer in found], 0.3, color=theme["peer"],
              label="best other loop")
    axis.bar_label(bars, [f"{ours:.2g}" for _, ours, _ in found], padding=3, fontsize=8,
                   color=theme["text"])
    axis.axvline(1, color=theme["grid"], linewidth=1)
    axis.set_xscale("log")
    ticks = [0.5, 1, 2, 4, 8, 16, 32]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(places, [name for name, _, _ in found])
    axis.invert_yaxis()
    axis.margins(y=0.01)
    axis.set_xlim(0.5, max([max(row[1:]) for row in found], default=1) * 1.3)
    axis.set_title("uvloop's cost over this loop's (CPU per operation; log scale), higher is "
                   "better", loc="left", fontsize=10, color=theme["text"])
    axis.tick_params(axis="y", length=0, labelsize=8, labelcolor=theme["text"])
    axis.tick_params(axis="x", labelsize=8, labelcolor=theme["text"], color=theme["grid"])
    axis.legend(frameon=False, labelcolor=theme["text"], fontsize=8, loc="lower right")
    for spine in axis.spines.values():
        spine.set_visible(False)
    return figure
