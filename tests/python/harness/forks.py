"""os.fork() for tests: their processes have threads, of ours and of numpy's."""
from __future__ import annotations

import os
import warnings


def fork() -> int:
    """Without the warning of those threads: it comes once the child is there, and as an error it
    left the child to run on, unknown to the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
