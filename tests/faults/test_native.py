"""The C++ suites on a poorer machine."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import programs

pytestmark = pytest.mark.time_limit(300)
# They compute alike on a poorer machine, and take a third of the time.
WITHOUT_KERNELS = "~[#frame_filter_test]~[#jpeg_test]~[#matmul_test]"


@pytest.mark.parametrize("launch", [
    ("--deny-uring", "EPERM"), ("--deny-uring", "ENOSYS"), ("--deny-register", "EPERM"),
    # Tests ask for the ring by name and hold several at once: 64 KiB would not do for those.
    ("--user", "--memlock-kib", "4096"), ("--user", "--memlock-kib", "0"),
], ids=" ".join)
def test_the_unit_suite_passes(launch: tuple[str, ...], tmp_path: Path) -> None:
    folder = os.environ.get("RINGLOOP_BUILD")
    if folder is None:
        pytest.skip("no build to look at: ./dev test faults makes one")
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    program = shutil.copy(Path(folder) / "tests" / "test_unit", tmp_path)
    done = subprocess.run([sys.executable, str(programs.LAUNCH), *launch, "--", program, "-#",
                           WITHOUT_KERNELS],
                          capture_output=True, text=True, check=False, timeout=280, cwd="/tmp")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "All tests passed" in done.stdout
