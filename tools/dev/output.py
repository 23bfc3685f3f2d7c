"""What ./dev prints, and how it runs other programs.

Progress goes to stdout as `[dev] …` lines; a failure that the user can do something about is a
Problem, shown as one sentence without a traceback. Nothing here decides anything.
"""
from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Problem(Exception):
    """A sentence for the user: what is wrong and what to do about it."""


def say(text: str) -> None:
    print(f"[dev] {text}", flush=True)


def run(command: list[str], *, env: dict[str, str] | None = None, cwd: Path = ROOT,
        check: str | None = None, timeout_s: float | None = None) -> int:
    """Runs `command`, its output shown. With `check`, a failure is a Problem that begins so."""
    sys.stdout.flush()
    try:
        code = subprocess.run(command, env=env, cwd=cwd, timeout=timeout_s, check=False).returncode
    except FileNotFoundError:
        raise Problem(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        say(f"no end after {timeout_s:.0f} s: {shlex.join(command)}")
        code = 124
    if code != 0 and check is not None:
        raise Problem(f"{check} (exit code {code}): {shlex.join(command)}")
    return code


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without what would point Python elsewhere, plus `changes`.

    Nor does it keep bytecode from being written: each child of a test would compile the package.
    """
    env = {key: value for key, value in os.environ.items()
           if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONSAFEPATH",
                          "PYTHONDONTWRITEBYTECODE")}
    env.update(changes)
    return env
