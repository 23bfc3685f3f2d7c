"""ringloop.leakcheck: nothing for a clean block, kind and number for what stays."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Callable

import pytest
import ringloop
from harness.loops import Run
from ringloop import _native


async def clean() -> None:
    assert await _native._probe_hop() is not None
    assert (await ringloop.fs.stat("/")).st_ino
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001), ringloop.open("/etc/hostname", "rb"):
            await asyncio.sleep(60)


def test_a_run_that_leaves_nothing_passes(on_host: Run) -> None:
    with ringloop.leakcheck(on_host, settle_s=5):
        on_host(clean())


def test_a_block_inside_of_a_loop_passes(on_host: Run) -> None:
    async def main() -> None:
        async with ringloop.leakcheck(settle_s=5):
            await clean()

    on_host(main())


def test_awaitables_that_stay_are_named(on_host: Run) -> None:
    async def main() -> None:
        file = _native.open_watcher("of nothing")
        old = _native._probe_nop()
        with pytest.raises(ringloop.LeakError) as caught:
            async with ringloop.leakcheck(settle_s=0.01):
                task = asyncio.ensure_future(file.read(4096))
                kept = [_native._probe_nop() for _ in range(6)]
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await file.close()
        for each in (old, *kept):
            each.close()
        leaks, text = caught.value.leaks, str(caught.value)
        assert (leaks["awaitables"], leaks["awaits_pending"]) == (7, 1)
        assert text.startswith("left behind: ") and "7 awaitables" in text
        assert text.count("<ringloop.Awaitable ") == 5 and text.endswith(", …)")

    on_host(main())


def test_descriptors_loops_and_files_that_stay_are_counted(run: Run) -> None:
    kept: list[Any] = []
    with pytest.raises(ringloop.LeakError, match=r"1 loops") as caught:
        with ringloop.leakcheck(settle_s=0):
            kept.append(run.new_loop())
            kept.append(os.pipe())
    names = list(caught.value.leaks)
    assert len([name for name in names if name.startswith(f"descriptor {kept[1][0]} pipe:[")]) == 1
    kept[0].close()
    os.close(kept[1][0])
    os.close(kept[1][1])


def test_references_to_what_it_is_given_are_counted() -> None:
    kept: list[Any] = []
    target: Any = object()
    with pytest.raises(ringloop.LeakError, match=r"2 reference to object \(argument 0"):
        with ringloop.leakcheck(target, settle_s=0):
            kept += [target, target]
    with ringloop.leakcheck(target):
        kept.clear()


def test_cycles_are_no_leak() -> None:
    with ringloop.leakcheck(settle_s=0):
        made: Any = [_native._probe_nop()]
        made.append(made)
        made[0].close()
        del made


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_block_that_raises_is_not_checked(on_host: Run, asynchronous: bool) -> None:
    kept: list[Any] = []

    async def main() -> None:
        with pytest.raises(KeyError):
            if asynchronous:
                async with ringloop.leakcheck():
                    kept.append(_native._probe_nop())
                    raise KeyError
            with ringloop.leakcheck():
                kept.append(_native._probe_nop())
                raise KeyError

    on_host(main())
    kept.pop().close()


def test_with_inside_of_a_loop_does_not_wait(on_host: Run) -> None:
    async def main() -> None:
        kept: list[Any] = []
        with pytest.raises(ringloop.LeakError, match="1 awaitables"):
            with ringloop.leakcheck(settle_s=3600):
                kept.append(_native._probe_nop())
        kept.pop().close()

    on_host(main())


def test_what_a_thread_still_ends_may_settle(run: Run) -> None:
    with ringloop.leakcheck(settle_s=30):
        async def main() -> None:
            await asyncio.to_thread(os.getpid)

        run(main())


def test_a_wrong_time_is_named() -> None:
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="settle_s is a number of seconds, not"):
            ringloop.leakcheck(settle_s=wrong)
