"""The demo's chart: four measures, one bar a variant; SVG for light and dark pages, and a PNG."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

PANELS = (
    ("requests per second", "requests_per_s", "{:.0f}", "higher is better"),
    ("latency, 99th percentile (ms)", "p99_ms", "{:.1f}", "lower is better"),
    ("CPU per request without kernels (us)", "loop_cpu_us_per_request", "{:.0f}",
     "lower is better"),
    ("loop lag, 99th percentile (ms)", "lag_p99_ms", "{:.2f}", "lower is better"),
)
THEMES = {
    "light": {"text": "#1f2328", "rival": "#b8c0c8", "guest": "#6ba3d6", "own": "#0a66c2"},
    "dark": {"text": "#e6edf3", "rival": "#57606a", "guest": "#4180b8", "own": "#58a6ff"},
}


def _colour(row: dict[str, Any], theme: dict[str, str]) -> str:
    if row["work"] == "executor":
        return theme["rival"]
    return theme["own"] if row["loop"] == "ringloop" else theme["guest"]


def _figure(rows: list[dict[str, Any]], theme: dict[str, str]) -> Any:
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 5), layout="constrained")
    for axis, (title, key, form, direction) in zip(axes.flat, PANELS):
        values = [row[key] for row in rows]
        bars = axis.barh([row["name"] for row in rows], values,
                         color=[_colour(row, theme) for row in rows])
        axis.bar_label(bars, [form.format(value) for value in values], padding=3,
                       color=theme["text"], fontsize=9)
        axis.set_title(f"{title}, {direction}", loc="left", fontsize=10, color=theme["text"])
        axis.invert_yaxis()
        axis.set_xlim(0, max(values) * 1.18 or 1)
        axis.xaxis.set_visible(False)
        axis.tick_params(axis="y", length=0, labelsize=9, labelcolor=theme["text"])
        for spine in axis.spines.values():
            spine.set_visible(False)
    return figure


def draw(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Writes the charts and returns their paths."""
    folder.mkdir(exist_ok=True)
    written = []
    for name, theme in THEMES.items():
        figure = _figure(rows, theme)
        written.append(folder / f"demo-{name}.svg")
        figure.savefig(written[-1], transparent=True)
        if name == "light":
            written.append(folder / "demo.png")
            figure.savefig(written[-1], dpi=150, facecolor="white")
        pyplot.close(figure)
    return written
