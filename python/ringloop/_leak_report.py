"""Whether this process tells at its end which native objects are still alive.

RINGLOOP_LEAKS=1 asks for it, RINGLOOP_LEAKS=0 for silence; else asyncio's and Python's debug modes
decide (PYTHONASYNCIODEBUG, python -X dev). Thread: the import's.
"""

from __future__ import annotations

import os
import sys

from . import _native


def report_if_wanted() -> None:
    """Once, at import: only what is made afterwards is told."""
    if _wanted():
        _native._report_leaks()


def _wanted() -> bool:
    environment = {} if sys.flags.ignore_environment else os.environ
    word = environment.get("RINGLOOP_LEAKS")
    if word:
        return word != "0"
    return sys.flags.dev_mode or bool(environment.get("PYTHONASYNCIODEBUG"))
