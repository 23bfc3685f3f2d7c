"""What this process holds of memory, for tests that look for growth."""
from __future__ import annotations

from pathlib import Path


def anonymous_kib() -> int:
    """Resident memory but for mapped files, shared memory and pages that were only read as zeros.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status without RssAnon")
