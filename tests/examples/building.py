"""Examples that are projects of their own, built against the package as their users build them."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ringloop
from harness.commands import BUILD_LIMIT_S, ROOT

BUILD = Path(ringloop._native.__file__).absolute().parents[2]

# What such a module is marked with; those that host Python, with both.
AGAINST_THE_PACKAGE = [
    pytest.mark.time_limit(BUILD_LIMIT_S),
    pytest.mark.skipif(os.environ.get("RINGLOOP_PRESET", "dev") not in ("dev", "release"),
                       reason="the project is built without sanitizers, the package is not")]
HOSTING_PYTHON = pytest.mark.skipif(not (BUILD / "tests" / "test_host").exists(),
                                    reason="this Python has no libpython to be hosted by")


def build(name: str, folder: Path, *options: str) -> Path:
    """examples/NAME in `folder`, which it returns; `options` are CMake's."""
    configure = ["cmake", "-G", "Ninja", "-S", ROOT / "examples" / name, "-B", folder,
                 f"-Dringloop_ROOT={ringloop.get_cmake_dir()}",
                 f"-DPython_EXECUTABLE={sys.executable}",
                 f"-DPython3_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -O0",
                 f"-DCMAKE_CXX_COMPILER={os.environ.get('CXX', 'c++')}", *options]
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return folder
