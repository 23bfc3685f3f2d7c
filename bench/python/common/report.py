"""Tables for people, JSON for the record, and the last line `ratio=…`."""
from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def options(name: str, description: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    """What every benchmark takes; its own may be added."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {name}", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", metavar="FILE")
    return parser


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths))) for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent" if package != "ringloop" else "this tree"


def machine() -> dict[str, object]:
    model = next((line.split(":", 1)[1].strip()
                  for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                            text=True, check=False).stdout.strip()
    return {"date": datetime.date.today().isoformat(), "kernel": platform.release(), "cpu": model,
            "cores": os.cpu_count(), "python": platform.python_version(), "commit": commit,
            "packages": {name: version(name) for name in ("uvloop", "rloop", "numpy", "uvicorn")}}


def save(path: str | None, name: str, results: dict[str, Any]) -> None:
    if path is not None:
        record = {"bench": name, "machine": machine(), **results}
        Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def ratio(value: float, meaning: str) -> None:
    """The last line of every benchmark."""
    print(f"ratio={value:.3f}  {meaning}", flush=True)
