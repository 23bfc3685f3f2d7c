"""Other programs run to their end, in an environment that knows nothing of this build: for tests of
what users get."""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD_LIMIT_S = 900
_SLOW_STEP = re.compile(r"^Executing .* took \d+\.\d+ seconds\n", re.MULTILINE)


def clean_environment(**changes: str) -> dict[str, str]:
    keep = ("PATH", "HOME", "LANG", "CCACHE_DIR", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    found = {key: value for key, value in os.environ.items()
             if key in keep or key.startswith(("PIP_", "SSL_", "REQUESTS_", "HTTP", "http"))}
    return {**found, **changes}


def run(*command: str | Path, cwd: Path = ROOT, **changes: str) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, cwd=cwd, env=clean_environment(**changes),
                          timeout=BUILD_LIMIT_S)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def without_slow_steps(stderr: str) -> str:
    """Debug mode reports each step above 0.1 s, and on a busy host any step may be one."""
    return _SLOW_STEP.sub("", stderr)
