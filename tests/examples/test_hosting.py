"""examples/hosting: one logic as a module, in a program that hosts Python, and as a hybrid."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ringloop
from examples import building
from harness.commands import ROOT

EXAMPLE = ROOT / "examples" / "hosting"

pytestmark = [*building.AGAINST_THE_PACKAGE, building.HOSTING_PYTHON]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.build("hosting", tmp_path_factory.mktemp("hosting"))


def results(command: list[str], **env: str) -> list[str]:
    """What comes of each task, without the times."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, input="multiply 30\nblur 36\ntotals 100\nblur 18\n",
                          capture_output=True, text=True, check=False, timeout=60,
                          env={**kept, **env})
    assert (done.returncode, done.stderr) == (0, ""), done
    return [line.split()[1] for line in done.stdout.splitlines()]


def test_each_way_has_the_same_results(programs: Path, backend: str) -> None:
    package = str(Path(ringloop.__file__).parents[1])
    loaded = results([sys.executable, str(EXAMPLE / "scripts" / "loaded.py")],
                     PYTHONPATH=os.pathsep.join((package, str(programs))),
                     RINGLOOP_BACKEND=backend)
    values = [float(n % 251) for n in range(900)]
    product = sum(values[30 * i + k] * values[30 * k + j]
                  for i in range(30) for j in range(30) for k in range(30))
    assert len(loaded) == 4 and float(loaded[0]) == product
    for way in ("lent", "marshalled", "hybrid"):
        assert results([str(programs / "host"), way], RINGLOOP_BACKEND=backend) == loaded
