"""What this process holds of memory, for tests that look for growth."""
from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path


def settle() -> None:
    """Collects garbage, and empties the interpreter's cache of methods: a call by a name in C puts
    a new string into it each time, until its 4,096 places are taken."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in ("_clear_type_cache", "_clear_internal_caches"):
            clear = getattr(sys, name, None)
            if clear is not None:
                clear()


def anonymous_kib() -> int:
    """Resident memory but for mapped files, shared memory and pages that were only read as zeros.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status without RssAnon")
