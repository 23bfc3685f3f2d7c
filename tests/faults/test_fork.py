"""Fork: the child learns that the loop is its parent's, holds none of its ring, and can make a new
one; the parent loses nothing."""
from __future__ import annotations

import json

import pytest

from harness import loops, programs


@pytest.fixture(scope="module", params=loops.BACKENDS)
def report(request: pytest.FixtureRequest) -> dict[str, object]:
    reason = loops.refusal(request.param)
    if reason is not None:
        pytest.skip(reason)
    done = programs.here().program("fork.py", request.param)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("call", ["call_soon", "call_later", "call_soon_threadsafe", "run_forever",
                                  "create_task", "add_reader"])
def test_the_child_gets_a_runtime_error_from_the_parents_loop(report: dict[str, dict[str, str]],
                                                              call: str) -> None:
    assert report["calls"][call].startswith("RuntimeError: "), report["calls"][call]
    assert "fork" in report["calls"][call]


def test_the_child_keeps_neither_ring_nor_wake_descriptor(report: dict[str, list[str]]) -> None:
    assert [name for name in report["descriptors"] if name.startswith("anon_inode:")] == []


def test_the_child_may_close_the_parents_loop(report: dict[str, str]) -> None:
    assert report["close"] == "closed"


def test_the_child_can_run_a_loop_of_its_own(report: dict[str, str]) -> None:
    assert report["own loop"] == "echoed"


def test_the_parent_loses_nothing_over_50_forks(report: dict[str, int]) -> None:
    assert report["echoes of the parent"] == 100


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_works_from_a_running_loop(method: str) -> None:
    done = programs.here().program("multiprocess.py", method)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["0", "1", "4", "9"]


ENDS = {"exit": "7 ", "raise": "1 ValueError: own", "return": "0 returned", "abort": "5 ",
        "subtask exit": "9 ", "subtask return": "0 returned", "protocol exit": "6 ",
        "sleep": "1 RuntimeError: ", "future": "1 RuntimeError: Event loop is closed: it belongs"}


@pytest.mark.parametrize("backend", loops.BACKENDS)
@pytest.mark.parametrize("way", ENDS)
def test_a_child_ends_as_its_program_says(backend: str, way: str) -> None:
    """It used to end with status 1 and a traceback of the loop's clean-up."""
    reason = loops.refusal(backend)
    if reason is not None:
        pytest.skip(reason)
    done = programs.here().program("fork_end.py", backend, way)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert f"{report['status']} {report['said']}".startswith(ENDS[way]), report
    assert "Traceback" not in done.stderr and "pending" not in done.stderr, done.stderr
    assert "never" not in done.stderr and "unclosed" not in done.stderr, done.stderr
