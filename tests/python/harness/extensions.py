"""The extension modules of tests/python/extension, built with the tests as other projects build
theirs, and found beside the built package."""
from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import ringloop


FOLDER = Path(ringloop._native.__file__).absolute().parents[2] / "extensions"


def load(name: str) -> Any:
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
