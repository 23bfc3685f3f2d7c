"""The demo's table, for a terminal."""
from __future__ import annotations

from typing import Any

COLUMNS = (
    ("requests/s", "requests_per_s", "{:.0f}"),
    ("p50 ms", "p50_ms", "{:.1f}"),
    ("p99 ms", "p99_ms", "{:.1f}"),
    ("CPU us/req", "cpu_us_per_request", "{:.0f}"),
    ("without kernels", "loop_cpu_us_per_request", "{:.0f}"),
    ("lag p99 ms", "lag_p99_ms", "{:.2f}"),
    ("epoll", "epoll_instances", "{}"),
    ("file threads", "file_threads", "{}"),
    ("iou-wrk", "kernel_workers_max", "{}"),
)
LEGEND = """\
CPU: of the server process, all threads; without kernels: without the time inside the compute
functions. lag: how late a 5 ms timer of the loop fires. epoll: epoll instances in the process.
file threads: threads created while only files were asked for. iou-wrk: most of the kernel's own
workers at once."""


def render(rows: list[dict[str, Any]]) -> str:
    cells = [["", *(title for title, _, _ in COLUMNS)]]
    cells += [[row["name"], *(form.format(row[key]) for _, key, form in COLUMNS)] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [line[0].ljust(widths[0]) + "".join(
        "  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:])) for line in cells]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join([*lines, "", LEGEND])
