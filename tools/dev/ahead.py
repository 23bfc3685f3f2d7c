"""A build that a later part of ./dev test asks for, made with what the processors have to spare.

Most tests wait more than they compute; the sanitizers' build only computes. It runs at idle
priority, so that nothing else is slower for it, and says what it has to say when it is asked for.
"""
from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import Interpreter
from output import ROOT, environment


class BuildAhead:
    def __init__(self, preset: str, interpreter: Interpreter) -> None:
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        idle = ["chrt", "--idle", "0"] if shutil.which("chrt") else ["nice", "-n", "19"]
        self._process = subprocess.Popen(
            [*idle, str(ROOT / "dev"), "build", preset], cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
            env=environment(PYTHON=interpreter.path))
        _weigh_little(self._process.pid)
        atexit.register(self._stop)

    def finish(self) -> None:
        """Waits for it. What went wrong is for the part's own build to say, which goes on here."""
        self._process.wait()
        self._log.seek(0)
        sys.stdout.write(self._log.read())
        sys.stdout.flush()

    def _stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait()


def _weigh_little(pid: int) -> None:
    """Where the kernel shares processors out by session, priorities count within one only."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text("19")
    except OSError:     # a kernel without it
        return
