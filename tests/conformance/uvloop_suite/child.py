"""One module of uvloop's own tests, where `uvloop` is the stand-in that run.py has written.

    child.py ORDERS REPORT        (../reporter.py)

The suite's classes for asyncio's own loop are left out: they say nothing about ours.
"""
from __future__ import annotations

import importlib
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import reporter  # noqa: E402


def _find(orders: dict[str, Any]) -> tuple[str, list[type[unittest.TestCase]]]:
    module = importlib.import_module(f"tests.{orders['module']}")
    return module.__name__, [
        kind for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase)
        and kind.__module__ == module.__name__ and "AIO" not in kind.__name__]


if __name__ == "__main__":
    reporter.main(_find)
