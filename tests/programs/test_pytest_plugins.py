"""anyio's pytest plug-in and pytest-asyncio run apps/with_*.py on our loop, in a pytest of their
own."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from programs.servers import APPS


PLUGINS = {
    "with_anyio.py": ("-p", "no:asyncio"),
    "with_pytest_asyncio.py": ("-p", "no:anyio", "-p", "pytest_asyncio_hook",
                               "-o", "asyncio_default_fixture_loop_scope=function")}


@pytest.mark.parametrize(("file", "count"), [("with_anyio.py", 4), ("with_pytest_asyncio.py", 2)])
def test_the_plugin_runs_its_tests_on_our_loop(file: str, count: int) -> None:
    paths = os.pathsep.join([str(APPS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={APPS}",
         f"--confcutdir={APPS}", "-p", "no:cacheprovider", "-W", "error", *PLUGINS[file],
         str(APPS / file)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths}, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout
