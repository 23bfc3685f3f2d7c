"""Guests: what ringloop puts beside a loop that is not its own, and takes away with it."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import ringloop
from harness import accounts
from harness.loops import HOSTS, Run
from ringloop import _native, fs

FOREIGN = [host for host in HOSTS if not host.startswith("ringloop-")]
nop, hop = _native._probe_nop, _native._probe_hop


@pytest.fixture(params=FOREIGN)
def foreign(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


@pytest.fixture
def native_backend(backend: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RINGLOOP_BACKEND", backend)
    return backend


def test_a_guest_works_on_every_backend(foreign: Run, native_backend: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"data")

    async def main() -> None:
        for _ in range(20):
            assert await asyncio.gather(nop(1), hop(), fs.read_bytes(tmp_path / "data")) == [
                1,
                False,
                b"data",
            ]
            assert await fs.stat(tmp_path / "data") == os.stat(tmp_path / "data")

    foreign(main())


def test_an_unknown_backend_is_named(foreign: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGLOOP_BACKEND", "windows")

    async def main() -> None:
        with pytest.raises(ValueError, match="windows"):
            await nop()

    foreign(main())


def test_closing_the_loop_takes_the_guest_along(foreign: Run) -> None:
    async def main() -> None:
        assert await nop(1) == 1

    before = accounts.descriptors()
    loop = foreign.new_loop()
    loop.run_until_complete(main())
    during = accounts.descriptors()
    assert any("io_uring" in name or "eventfd" in name for name in during - before)
    loop.close()
    assert not accounts.descriptors() - before


def test_a_loop_that_nobody_closed_is_collected_with_its_guest() -> None:
    async def main() -> None:
        assert await nop(1) == 1
        hop(30.0).add_done_callback(print)

    before = accounts.descriptors()
    loop = asyncio.new_event_loop()
    gone = weakref.ref(loop)
    loop.run_until_complete(main())
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        del loop
        gc.collect()
    assert gone() is None
    assert _native._probe_counts() == {"awaitables": 0, "pending": 0, "jobs": 0}
    assert not accounts.descriptors() - before


def test_many_loops_one_after_another_leave_nothing(foreign: Run) -> None:
    async def main(number: int) -> int:
        return await nop(number) + len(await asyncio.gather(hop(), hop()))

    for number in range(100):
        assert foreign(main(number)) == number + 2


def test_loops_in_turn_on_one_thread_keep_apart(foreign: Run) -> None:
    first, second = foreign.new_loop(), foreign.new_loop()
    try:

        async def main(value: int) -> Any:
            return await asyncio.gather(nop(value), hop())

        for value in range(20):
            assert first.run_until_complete(main(value)) == [value, False]
            assert second.run_until_complete(main(value)) == [value, False]
    finally:
        first.close()
        second.close()


def test_an_awaitable_of_another_loop_is_refused(foreign: Run) -> None:
    first, second = foreign.new_loop(), foreign.new_loop()
    kept: list[Any] = []

    async def start() -> None:
        made = hop(0.2)
        made.add_done_callback(lambda _: None)
        kept.append(made)

    async def misuse() -> None:
        await kept[0]

    try:
        first.run_until_complete(start())
        assert kept[0].get_loop() is first
        with pytest.raises(RuntimeError):
            second.run_until_complete(misuse())
    finally:
        first.close()
        second.close()


def test_other_tasks_run_while_immediate_results_keep_coming(foreign: Run) -> None:
    async def main() -> None:
        steps = 0

        async def other() -> None:
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        for _ in range(1000):
            await nop()
        task.cancel()
        assert steps >= 50

    foreign(main())


def test_a_result_that_no_await_asked_for_yet_is_delivered_while_the_loop_sleeps(
    foreign: Run,
) -> None:
    async def main() -> None:
        for _ in range(50):
            ended = asyncio.Event()
            nop(1, True).add_done_callback(lambda _: ended.set())
            hop().add_done_callback(lambda _: None)
            async with asyncio.timeout(10):
                await ended.wait()

    foreign(main())


FORK = """
import asyncio, os, sys
import ringloop
from ringloop import _native
async def child():
    return await _native._probe_nop(7)
async def main():
    assert await _native._probe_nop(1) == 1
    pending = [_native._probe_nop(2, True), ringloop.fs.stat("/")]
    for each in pending: each.add_done_callback(lambda _: None)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio._set_running_loop(None)
            loop = asyncio.new_event_loop()
            code = 0 if loop.run_until_complete(child()) == 7 else 2
            loop.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for each in pending: await each
    return "fine"
print(asyncio.run(main()))
"""


def test_a_forked_child_makes_a_guest_of_its_own_and_the_parent_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=50)
    assert done.stdout == "fine\n", done.stderr


def test_a_loop_without_add_reader_says_so() -> None:
    class Bare(asyncio.AbstractEventLoop):
        pass

    bare = Bare()
    asyncio._set_running_loop(bare)
    try:
        with pytest.raises(NotImplementedError):
            nop().send(None)
    finally:
        asyncio._set_running_loop(None)
    gc.collect()
