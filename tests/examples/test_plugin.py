"""examples/plugin: a native plug-in that awaits back into Python, cancelled at each level."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pybind11
import pytest

import ringloop
from examples import building
from harness.commands import ROOT

EXAMPLE = ROOT / "examples" / "plugin"
LEVELS = ["order", "payment", "bank", "line"]

pytestmark = building.AGAINST_THE_PACKAGE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.build("plugin", tmp_path_factory.mktemp("plugin"),
                          f"-Dpybind11_ROOT={pybind11.get_cmake_dir()}")


def orders(folder: Path, *words: str) -> list[str]:
    path = os.pathsep.join((str(folder), str(Path(ringloop.__file__).parents[1])))
    done = subprocess.run([sys.executable, EXAMPLE / "orders.py", *words], text=True, check=False,
                          capture_output=True, timeout=60, env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def test_an_order_goes_through_at_the_second_attempt(folder: Path) -> None:
    cleaned = [f"{level}: cleaned up" for level in ("line", "line", "bank", "payment", "order")]
    assert orders(folder) == [*cleaned, "order 7 is paid"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "ringloop"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_cancel_ends_what_is_below_and_tells_what_is_above(folder: Path, level: str,
                                                             loop: str) -> None:
    if importlib.util.find_spec(loop) is None:
        pytest.skip(f"{loop} is not there")
    told = orders(folder, level, loop)
    assert told.pop(0) == "line: cleaned up"        # the attempt that failed
    assert told.pop() == "the order was not placed"
    depth = LEVELS.index(level)
    expected = []
    for name in reversed(LEVELS):
        mine = LEVELS.index(name) >= depth
        expected += [f"{name}: {'' if mine else 'what it waited for was '}cancelled",
                     f"{name}: cleaned up"]
    assert told == expected
