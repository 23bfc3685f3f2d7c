"""The extension modules of tests/python/extension, built with the tests as other projects build
theirs, and found beside the built package."""
from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import ringloop


def load(name: str) -> Any:
    folder = Path(ringloop._native.__file__).absolute().parents[2] / "extensions"
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.import_module(name)
