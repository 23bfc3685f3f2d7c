"""io_uring denied, little lockable memory, few descriptors, a plain user: all still works."""
from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from harness import programs

SUITE_LIMIT_S = 600
NEWER_THAN_6_1 = ",".join(map(str, range(49, 64)))    # opcodes: READ_MULTISHOT and later


@pytest.fixture(scope="module")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> programs.Place:
    folder = tmp_path_factory.mktemp("everybody")
    for parent in folder.parents[:2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    return programs.everybodys(folder)


ALL = os.environ.get("RINGLOOP_TEST_ALL") == "1"
LEFT_OUT = ("simulation",)      # knows no kernel
# What asks the kernel for something, a module for each kind of it; the whole suite with --all.
KINDS = ("awaitable", "c_table", "datagram", "fd_handover", "files", "fs_copy", "fs_watch", "guest",
         "loop_watch", "pipes", "sendfile", "server", "sock", "streams", "subprocess", "tls",
         "transport_life", "transport_reading", "transport_writing", "unix")


def arguments(tree: Path) -> tuple[str, ...]:
    folder = tree / "tests" / "python"
    chosen = ([f"--ignore={folder}/test_{name}.py" for name in LEFT_OUT] + [str(folder)] if ALL
              else [f"{folder}/test_{name}.py" for name in KINDS])
    return ("-m", "pytest", "-q", f"--rootdir={tree}", "-c", str(tree / "pyproject.toml"),
            "-p", "no:cacheprovider", *chosen)


def suite(place: programs.Place, folder: Path, *, backends: str, launch: tuple[str, ...] = (),
          **environment: str) -> dict[str, int]:
    """Runs tests/python, or the part of it; returns the counts of its report."""
    folder.chmod(0o777)
    report = folder / "report.xml"
    # Not in `folder`: the path of a Unix socket has 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="rl-"))
    base.chmod(0o777)
    done = place.run(*arguments(place.tree), "-n", "2", f"--basetemp={base}/base",
                     f"--junitxml={report}", launch=launch, timeout_s=SUITE_LIMIT_S,
                     RINGLOOP_TEST_BACKENDS=backends, **environment)
    shutil.rmtree(base, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = ElementTree.parse(report).getroot()[0]
    counts = {key: int(found.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
    assert counts["failures"] == counts["errors"] == 0
    # What this machine cannot run would be no test of it.
    lacking = [each.get("message", "") for each in found.iter("skipped")
               if "backend" in each.get("message", "")]
    assert not lacking
    return counts


def hosts() -> dict[str, str]:
    """One foreign loop stands for both, but with --all."""
    return {} if ALL else {"RINGLOOP_TEST_GUESTS": "asyncio"}


def collected(backends: str) -> int:
    """How many tests the same suite has on a backend."""
    place = programs.here()
    done = place.run(*arguments(place.tree), "--collect-only", timeout_s=SUITE_LIMIT_S,
                     RINGLOOP_TEST_BACKENDS=backends, **hosts())
    found = re.search(r"(\d+) tests collected", done.stdout)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return int(found[1])


@pytest.mark.time_limit(2 * SUITE_LIMIT_S)
def test_the_suite_passes_without_io_uring_as_often_as_on_epoll(tmp_path: Path) -> None:
    denied = suite(programs.here(), tmp_path, backends="auto", launch=("--deny-uring", "EPERM"),
                   **hosts())
    assert denied["tests"] == collected("epoll")


@pytest.mark.time_limit(SUITE_LIMIT_S)
def test_the_suite_passes_as_a_plain_user_on_a_ring_without_what_kernel_6_1_lacks(
        everybody: programs.Place, tmp_path: Path) -> None:
    counts = suite(everybody, tmp_path, backends="uring", launch=("--user",),
                   RINGLOOP_TEST_MASK=NEWER_THAN_6_1, RINGLOOP_TEST_GUESTS="asyncio")
    assert counts["tests"] > counts["skipped"]


@pytest.mark.skipif(not ALL,
                    reason="the whole suite with --all; loops and smoke at each limit always")
@pytest.mark.time_limit(SUITE_LIMIT_S)
def test_the_suite_passes_as_a_plain_user_with_64_kib_of_lockable_memory(
        everybody: programs.Place, tmp_path: Path) -> None:
    counts = suite(everybody, tmp_path, backends="auto", launch=("--user", "--memlock-kib", "64"),
                   RINGLOOP_TEST_GUESTS="asyncio")
    assert counts["tests"] > counts["skipped"]


@pytest.mark.parametrize("answer", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("option", ["--deny-uring", "--deny-register"])
def test_everything_works_where_io_uring_is_denied(option: str, answer: str) -> None:
    done = programs.here().program("smoke.py", launch=(option, answer))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backend"] == "epoll"


def test_the_reason_for_epoll_is_said_once_and_names_what_to_look_at() -> None:
    done = programs.here().run("-c", _LOGGING, launch=("--deny-uring", "EPERM"))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "epoll" in line]
    assert len(lines) == 1
    assert "seccomp" in lines[0]


_LOGGING = """
import logging, ringloop
logging.basicConfig(level=logging.DEBUG)
for _ in range(3):
    ringloop.new_event_loop().close()
"""


def test_an_explicit_wish_for_the_ring_is_refused_where_it_is_denied() -> None:
    done = programs.here().run("-c", "import ringloop; ringloop.new_event_loop(backend='uring')",
                               launch=("--deny-uring", "EPERM"))
    assert done.returncode == 1
    assert "OSError" in done.stderr or "PermissionError" in done.stderr


@pytest.mark.parametrize("limit_kib", [0, 4, 8, 16, 32, 64, 8192])
def test_loops_start_at_every_limit_of_lockable_memory(everybody: programs.Place,
                                                       limit_kib: int) -> None:
    launch = ("--user", "--memlock-kib", str(limit_kib))
    done = everybody.program("smoke.py", "200", launch=launch)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backend"] in ("uring", "epoll")


def test_accepting_goes_on_after_the_descriptors_ran_out() -> None:
    done = programs.here().program("few_descriptors.py")
    assert done.returncode == 0, done.stdout + done.stderr
