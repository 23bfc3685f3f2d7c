"""examples/cpp/supervisor.cpp: programs that end are started again, and end with it."""
from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import Callable, Iterator

import pytest

from examples.running import LIMIT_S, command


class Supervisor:
    """What it says, line by line, on stderr."""

    def __init__(self, backend: str, *words: str) -> None:
        self.process = subprocess.Popen(command(backend, "supervisor", *words), text=True,
                                        stderr=subprocess.PIPE)

    def hears(self, pattern: str) -> re.Match[str]:
        """The next line that matches; the ones before it are not looked at again."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.fullmatch(f"(?:supervisor: )?{pattern}\n", line)
            if found is not None:
                return found
        raise AssertionError(f"it ended without: {pattern}")

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=LIMIT_S)[1]
        assert self.process.returncode == 0, said
        return said


Start = Callable[..., Supervisor]


@pytest.fixture
def start(backend: str) -> Iterator[Start]:
    made: list[Supervisor] = []

    def make(*words: str) -> Supervisor:
        made.append(Supervisor(backend, *words))
        return made[-1]
    yield make
    for each in made:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_a_program_that_ends_is_started_again_and_all_end_with_it(start: Start) -> None:
    run = start("sleep", "1000", "--", "sh", "-c", "exit 3")
    first = int(run.hears(r"sleep started as (\d+)")[1])
    run.hears("sh ended with code 3")
    run.hears(r"sh started as \d+")
    os.kill(first, signal.SIGKILL)
    run.hears("sleep ended by signal 9")
    second = int(run.hears(r"sleep started as (\d+)")[1])
    assert second != first
    assert "sleep ended by signal 15" in run.stop()
    assert gone(second)


def test_a_hangup_restarts_and_a_missing_program_is_tried_again(start: Start) -> None:
    run = start("sleep", "1000", "--", "/nowhere/program")
    first = int(run.hears(r"sleep started as (\d+)")[1])
    run.hears("/nowhere/program does not start: .*No such file or directory")
    run.hears("/nowhere/program does not start: .*")
    run.process.send_signal(signal.SIGHUP)
    run.hears("sleep ended by signal 15")
    second = int(run.hears(r"sleep started as (\d+)")[1])
    assert gone(first)
    run.stop()
    assert gone(second)


def test_a_program_that_ignores_the_stop_is_killed_after_the_grace(start: Start) -> None:
    ignores = "trap '' TERM; echo ready as $$ >&2; while :; do sleep 0.1; done"
    run = start("--grace", "0.2", "sh", "-c", ignores)
    pid = int(run.hears(r"ready as (\d+)")[1])
    assert "sh ended by signal 9" in run.stop()
    assert gone(pid)
