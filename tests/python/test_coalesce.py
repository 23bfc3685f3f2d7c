"""ringloop.coalesce: awaits of single items become one call of a list."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import sys
import threading
import weakref
from typing import Any, Callable

import pytest
import ringloop
from harness.loops import Run


class Doubler:
    """An async function of a list that says what it was called with, and waits when it is told."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        self.gate: asyncio.Event | None = None
        self.cancelled = 0

    async def __call__(self, items: list[Any]) -> list[Any]:
        self.calls.append(items)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return [2 * item for item in items]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_awaits_of_one_turn_become_one_call(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        double = ringloop.coalesce(fn)
        assert await asyncio.gather(*map(double, range(1000))) == list(range(0, 2000, 2))
        assert fn.calls == [list(range(1000))]
        assert await double(7) == 14 and await double(8) == 16
        assert fn.calls[1:] == [[7], [8]]

    on_host(main())


def test_it_joins_eager_tasks_too(on_host: Run) -> None:
    if sys.version_info < (3, 12):
        pytest.skip("eager tasks are of Python 3.12")

    async def main() -> None:
        # Not asyncio.eager_task_factory: uvloop 0.23 calls it wrongly before Python 3.13.3.
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coro, **_: asyncio.Task(coro, loop=loop, eager_start=True)
        )
        fn = Doubler()
        double = ringloop.coalesce(fn, max=3)
        assert await asyncio.gather(*map(double, range(5))) == [0, 2, 4, 6, 8]
        assert fn.calls == [[0, 1, 2], [3, 4]]

    on_host(main())


def test_a_native_awaitable_may_be_what_the_function_returns(on_host: Run) -> None:
    async def main() -> None:
        nop = ringloop.coalesce(ringloop._native._probe_nop)
        assert await asyncio.gather(nop(1), nop(2)) == [1, 2]

    on_host(main())


@pytest.mark.parametrize("window_us", [None, 0, 1e6])
def test_a_full_batch_begins_at_once(on_host: Run, window_us: float | None) -> None:
    async def main() -> None:
        fn = Doubler()
        double = ringloop.coalesce(fn, window_us, max=2)
        assert await asyncio.gather(*map(double, range(4))) == [0, 2, 4, 6]
        assert fn.calls == [[0, 1], [2, 3]]

    on_host(main())


def test_a_window_joins_later_turns(backend: str) -> None:
    async def main() -> None:
        fn = Doubler()
        double = ringloop.coalesce(fn, window_us=500)
        first = asyncio.create_task(double(1))
        await asyncio.sleep(0.0004)
        second = asyncio.create_task(double(2))
        assert await asyncio.gather(first, second) == [2, 4]
        await asyncio.gather(double(3), asyncio.sleep(0.0006))
        assert fn.calls == [[1, 2], [3]]

    loop = ringloop.new_event_loop(backend=backend, clock="virtual")
    loop.run_until_complete(main())
    loop.close()


def test_a_window_ends_by_itself(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        assert await ringloop.coalesce(fn, window_us=1000)(1) == 2
        assert fn.calls == [[1]]

    on_host(main())


def test_batches_run_beside_each_other(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        fn.gate = asyncio.Event()
        double = ringloop.coalesce(fn)
        first = asyncio.create_task(double(1))
        await turns()
        second = asyncio.create_task(double(2))
        await turns()
        assert fn.calls == [[1], [2]]
        fn.gate.set()
        assert await asyncio.gather(first, second) == [2, 4]

    on_host(main())


def test_each_caller_gets_its_own_result_or_exception(on_host: Run) -> None:
    async def fn(items: list[Any]) -> list[Any]:
        return items

    async def main() -> None:
        give = ringloop.coalesce(fn)
        wanted = [1, KeyError("k"), StopIteration(5), asyncio.CancelledError("c"), (2, 3)]
        got = await asyncio.gather(*map(give, wanted), return_exceptions=True)
        assert (got[0], got[1], got[4]) == (1, wanted[1], (2, 3))
        assert isinstance(got[2], RuntimeError) and got[2].__cause__ is wanted[2]
        assert isinstance(got[3], asyncio.CancelledError)

    on_host(main())


def test_what_the_call_raises_reaches_all_of_its_batch(on_host: Run) -> None:
    async def fn(items: list[int]) -> list[int]:
        if items[0] < 0:
            raise LookupError("not there")
        return items

    async def main() -> None:
        give = ringloop.coalesce(fn, max=2)
        got = await asyncio.gather(give(-1), give(2), give(3), return_exceptions=True)
        assert [type(each) for each in got] == [LookupError, LookupError, int]

    on_host(main())


@pytest.mark.parametrize(("returned", "kind", "words"), [
    ([1], ValueError, "returned 1 results for 2 items"),
    (None, TypeError, "must return a sequence of results in the order of the items, not None"),
    ("ab", TypeError, "must return a sequence"),
    ({1: 2, 3: 4}, TypeError, "must return a sequence"),
])
def test_a_wrong_result_is_an_error_for_all(
    on_host: Run, returned: Any, kind: type[Exception], words: str
) -> None:
    async def fn(items: list[int]) -> Any:
        return returned

    async def main() -> None:
        give = ringloop.coalesce(fn)
        for error in await asyncio.gather(give(1), give(2), return_exceptions=True):
            assert isinstance(error, kind) and "fn, coalesced" in str(error), error
            assert words in str(error)

    on_host(main())


def test_a_function_that_is_not_async_is_named(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match=r"list, coalesced, must be async, but returned \[1\]"):
            await ringloop.coalesce(list)(1)

    run(main())


def test_a_cancelled_caller_takes_its_item_with_it(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        double = ringloop.coalesce(fn, window_us=2000)
        first, second = asyncio.create_task(double(1)), asyncio.create_task(double(2))
        await turns()
        first.cancel()
        assert await second == 4 and fn.calls == [[2]]
        assert first.cancelled()

    on_host(main())


def test_a_caller_that_leaves_a_running_call_harms_nobody(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        fn.gate = asyncio.Event()
        double = ringloop.coalesce(fn)
        first, second = asyncio.create_task(double(1)), asyncio.create_task(double(2))
        await turns()
        first.cancel()
        await turns()
        assert first.cancelled() and not second.done()
        fn.gate.set()
        assert await second == 4 and fn.cancelled == 0

    on_host(main())


def test_the_call_is_cancelled_when_all_have_left(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        fn.gate = asyncio.Event()
        double = ringloop.coalesce(fn)
        tasks = [asyncio.create_task(double(item)) for item in range(3)]
        await turns()
        for task in tasks:
            task.cancel()
        await turns()
        assert fn.cancelled == 1 and all(task.cancelled() for task in tasks)
        fn.gate.set()
        assert await double(4) == 8

    on_host(main())


@pytest.mark.parametrize("window_us", [None, 1e9])
def test_no_call_is_made_when_all_have_left_before(on_host: Run, window_us: float | None) -> None:
    async def main() -> None:
        fn = Doubler()
        double = ringloop.coalesce(fn, window_us)
        callers = [double(item) for item in range(3)]
        for caller in callers:
            caller.send(None)  # joined
        for caller in callers:
            caller.close()     # and gone, without a turn between
        await turns()
        assert fn.calls == []
        if window_us is None:
            assert await double(5) == 10

    on_host(main())


def test_others_than_the_callers_may_cancel_the_call(on_host: Run) -> None:
    async def main() -> None:
        fn = Doubler()
        fn.gate = asyncio.Event()
        double = ringloop.coalesce(fn, max=1)
        for steps in (0, 3):  # before and after its first step
            caller = asyncio.create_task(double(1))
            await asyncio.sleep(0)
            ours = {caller, asyncio.current_task()}
            (call,) = [each for each in asyncio.all_tasks() if each not in ours]
            await turns(steps)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        assert fn.calls == [[1]]

    on_host(main())


def test_a_failure_that_nobody_is_left_to_hear_is_reported(on_host: Run) -> None:
    async def fn(items: list[int]) -> list[int]:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise OSError("while cleaning up")

    async def main() -> None:
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        caller = asyncio.create_task(ringloop.coalesce(fn)(1))
        await turns()
        caller.cancel()
        await turns()
        (report,) = reports
        assert "failed after all callers had left" in report["message"]
        assert isinstance(report["exception"], OSError)

    on_host(main())


def test_the_call_runs_in_the_context_of_its_first_caller(on_host: Run) -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")

    async def fn(items: list[str]) -> list[str]:
        return [name.get() for _ in items]

    async def caller(own: str, give: Callable[[str], Any]) -> Any:
        name.set(own)
        return await give(own)

    async def main() -> None:
        give = ringloop.coalesce(fn)
        assert await asyncio.gather(caller("a", give), caller("b", give)) == ["a", "a"]

    on_host(main())


def test_loops_in_several_threads_never_share_a_batch(on_host: Run) -> None:
    seen: list[tuple[int, list[int]]] = []

    async def fn(items: list[int]) -> list[int]:
        seen.append((threading.get_ident(), items))
        return [threading.get_ident()] * len(items)

    give = ringloop.coalesce(fn)
    start = threading.Barrier(3)

    def thread(first: int) -> None:
        async def main() -> None:
            for _ in range(20):
                got = await asyncio.gather(*(give(first + each) for each in range(10)))
                assert got == [threading.get_ident()] * 10

        start.wait()
        on_host(main())

    threads = [threading.Thread(target=thread, args=(100 * number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(seen) == 60 and len({ident for ident, _ in seen}) == 3
    assert all(items == list(range(items[0], items[0] + 10)) for _, items in seen)


def test_two_loops_of_one_thread_may_take_turns(on_host: Run) -> None:
    fn = Doubler()
    double = ringloop.coalesce(fn)
    first, second = on_host.new_loop(), on_host.new_loop()
    waits = first.create_task(double(1))
    first.call_soon(first.stop)
    first.run_forever()       # the batch is open, its call not made
    assert second.run_until_complete(double(2)) == 4
    assert first.run_until_complete(waits) == 2
    assert fn.calls == [[2], [1]]
    first.close()
    second.close()


def test_a_loop_that_was_dropped_amid_a_batch_is_freed_in_silence() -> None:
    """The coroutine that the collector closed used to raise that the loop was closed; from 3.15 on
    the report of it kept the loop."""
    double = ringloop.coalesce(Doubler(), window_us=1e9)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)   # of the task that was destroyed
    task = loop.create_task(double(1))
    loop.call_soon(loop.stop)
    loop.run_forever()
    gone = weakref.ref(loop)
    loop.close()
    del loop, task
    gc.collect()
    assert gone() is None


def test_errors_leave_no_cycle(run: Run) -> None:
    class Error(Exception):
        pass

    async def fn(items: list[int]) -> list[int]:
        raise Error

    async def main() -> None:
        give = ringloop.coalesce(fn)
        gc.collect()
        gc.disable()
        try:
            try:
                await give(1)
            except Error as error:
                gone = weakref.ref(error)
            await turns()
            assert gone() is None
        finally:
            gc.enable()

    run(main())


def test_it_looks_like_its_function() -> None:
    async def fetch_all(keys: list[int]) -> list[int]:
        """Fetches."""
        return keys

    fetch = ringloop.coalesce(fetch_all)
    assert fetch.__name__ == "fetch_all" and fetch.__doc__ == "Fetches."
    assert inspect.iscoroutinefunction(fetch)


def test_a_wrong_wrapping_is_refused() -> None:
    with pytest.raises(TypeError, match="takes an async function of a list, not 5"):
        ringloop.coalesce(5)
    for window in (-1, float("nan"), float("inf"), "1"):
        with pytest.raises(ValueError, match="window_us is a number of microseconds, not"):
            ringloop.coalesce(Doubler(), window_us=window)
    for most in (0, 1.5, "2"):
        with pytest.raises(ValueError, match="max is a number of items, 1 or more, not"):
            ringloop.coalesce(Doubler(), max=most)
