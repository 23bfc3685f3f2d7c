"""ringloop.Awaitable: a coroutine and a future in one object, on every host.

The work behind it is a probe: a NOP on the ring, or a job on a worker thread.
"""

from __future__ import annotations

import asyncio
import collections.abc
import contextvars
import gc
import inspect
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest
import ringloop
from harness import accounts
from harness.loops import Run
from ringloop import _native

nop, hop, immediate = _native._probe_nop, _native._probe_hop, _native._probe_immediate


def test_the_type_is_a_coroutine_and_no_future() -> None:
    assert issubclass(ringloop.Awaitable, collections.abc.Coroutine)
    assert not issubclass(ringloop.Awaitable, asyncio.Future)
    made = nop()
    assert asyncio.iscoroutine(made) and inspect.isawaitable(made)
    made.close()


def test_it_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError):
        ringloop.Awaitable()


@pytest.mark.parametrize(
    "value", [None, 5, b"bytes", (1, 2), (), ValueError("a value, not raised")]
)
def test_an_await_gives_the_value_as_it_is(on_host: Run, value: Any) -> None:
    async def main() -> None:
        assert await nop(value) is value
        assert await immediate(value) is value
        assert await asyncio.create_task(nop(value)) is value

    on_host(main())


def test_everything_of_asyncio_takes_it(on_host: Run) -> None:
    async def main() -> None:
        assert await asyncio.gather(nop(1), hop(), nop(3)) == [1, False, 3]
        assert await asyncio.shield(nop(4)) == 4
        assert await asyncio.wait_for(nop(5), 10) == 5
        assert await asyncio.ensure_future(nop(6)) == 6
        tasks = [asyncio.ensure_future(nop(each)) for each in range(3)]
        done, pending = await asyncio.wait(tasks)
        assert not pending and sorted(task.result() for task in done) == [0, 1, 2]
        assert sorted([await each for each in asyncio.as_completed([nop(1), nop(2)])]) == [1, 2]
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(nop(7))
        assert task.result() == 7

    on_host(main())


def test_a_loop_runs_it_directly(on_host: Run) -> None:
    loop = on_host.new_loop()
    try:
        assert loop.run_until_complete(nop(8)) == 8
    finally:
        loop.close()


def test_it_starts_at_the_first_await_and_not_before(on_host: Run) -> None:
    async def main() -> None:
        made = hop()
        assert not made.done() and not made.cancelled()
        assert _native._probe_counts()["pending"] == 0
        with pytest.raises(asyncio.InvalidStateError):
            made.result()
        with pytest.raises(asyncio.InvalidStateError):
            made.exception()
        assert await made is False

    on_host(main())


class OwnTask(asyncio.Task):  # type: ignore[type-arg]
    """A task type of somebody's."""


PURE_TASK: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", [asyncio.Task, OwnTask, PURE_TASK])
@pytest.mark.parametrize("ending", ["a value", "an error", "a cancel"])
def test_every_task_type_is_woken_with_how_it_ended(on_host: Run, task: Any, ending: str) -> None:
    """C tasks get a finished future in place of the awaitable, which asks for its value itself."""

    async def waits() -> object:
        if ending == "an error":
            return await hop(0.0, 1)  # a system error
        work = hop(10.0 if ending == "a cancel" else 0.001)
        if ending == "a cancel":
            asyncio.get_running_loop().call_soon(work.cancel, "told why")
        return await work

    async def main() -> None:
        waiting = task(waits(), loop=asyncio.get_running_loop())
        if ending == "a value":
            assert await waiting is False
        elif ending == "an error":
            with pytest.raises(OSError):
                await waiting
        else:
            with pytest.raises(asyncio.CancelledError, match="told why"):
                await waiting
            assert waiting.cancelled()

    on_host(main())


def test_callbacks_that_are_no_tasks_get_the_awaitable(on_host: Run) -> None:
    """Also those that look like a task's, and those of a task's other methods."""

    class Lookalike:
        def task_wakeup(self, work: object) -> None:
            told.append(work)

    told: list[object] = []

    async def main() -> None:
        done = asyncio.get_running_loop().create_future()
        work = nop(5)
        work.add_done_callback(told.append)
        work.add_done_callback(Lookalike().task_wakeup)
        work.add_done_callback(lambda _: done.set_result(None))
        await done
        assert told == [work, work] and work.result() == 5

    on_host(main())


def test_outside_a_loop_it_says_so() -> None:
    made = nop()
    with pytest.raises(RuntimeError, match="no running event loop"):
        made.send(None)
    with pytest.raises(RuntimeError, match="no running event loop"):
        nop().add_done_callback(print)


def test_add_done_callback_starts_it_and_keeps_the_context(on_host: Run) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def main() -> None:
        seen: list[tuple[int, Any]] = []
        ended = asyncio.Event()

        def callback(which: int) -> Any:
            def called(future: Any) -> None:
                seen.append((which, variable.get()))
                assert future is made and future.result() == 9
                if len(seen) == 3:
                    ended.set()

            return called

        made = nop(9)
        variable.set(1)
        made.add_done_callback(callback(1))
        variable.set(2)
        made.add_done_callback(callback(2))
        other = contextvars.copy_context()
        other.run(variable.set, 3)
        made.add_done_callback(callback(3), context=other)
        assert made.get_loop() is asyncio.get_running_loop()
        await ended.wait()
        assert seen == [(1, 1), (2, 2), (3, 3)]
        late = asyncio.Event()
        made.add_done_callback(lambda _: late.set())
        await late.wait()

    on_host(main())


def test_removed_callbacks_are_not_called(on_host: Run) -> None:
    async def main() -> None:
        calls: list[int] = []
        first, second = (lambda _: calls.append(1)), (lambda _: calls.append(2))
        made = hop()
        for each in (first, second, first):
            made.add_done_callback(each)
        assert made.remove_done_callback(first) == 2
        assert made.remove_done_callback(first) == 0
        assert await made is False
        await asyncio.sleep(0)
        assert calls == [2]

    on_host(main())


def test_a_callback_that_raises_reaches_the_exception_handler(on_host: Run) -> None:
    async def main() -> None:
        reports: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.put_nowait(context))

        def broken(_: Any) -> None:
            raise ZeroDivisionError

        nop().add_done_callback(broken)
        assert isinstance((await reports.get())["exception"], ZeroDivisionError)

    on_host(main())


@pytest.mark.parametrize(
    "make", [lambda: nop(1), lambda: immediate(1), lambda: hop()], ids=["nop", "immediate", "hop"]
)
def test_a_second_await_is_refused_and_result_is_not(on_host: Run, make: Any) -> None:
    async def main() -> None:
        made = make()
        value = await made
        assert made.result() == value and made.result() == value and made.exception() is None
        with pytest.raises(RuntimeError, match="awaited before"):
            await made
        with pytest.raises(RuntimeError):
            await asyncio.create_task(made)

    on_host(main())


def test_two_tasks_cannot_await_one(on_host: Run) -> None:
    async def main() -> None:
        made = hop(0.2)

        async def wait() -> Any:
            return await made

        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        with pytest.raises(RuntimeError):
            await second
        assert await first is False

    on_host(main())


FAILURES = [(1, FileNotFoundError), (2, ValueError), (3, MemoryError), (4, RuntimeError)]


@pytest.mark.parametrize("number, expected", FAILURES, ids=[str(e.__name__) for _, e in FAILURES])
def test_what_native_code_throws_arrives_as_the_right_exception(
    on_host: Run, number: int, expected: type[Exception]
) -> None:
    async def main() -> None:
        made = hop(0.0, number)
        with pytest.raises(expected) as caught:
            await made
        if expected is FileNotFoundError:
            assert caught.value.errno == 2  # type: ignore[attr-defined]
        assert isinstance(made.exception(), expected)
        with pytest.raises(expected):
            made.result()

    on_host(main())


def test_a_failure_that_nobody_looks_at_is_reported(on_host: Run) -> None:
    async def main() -> None:
        reports: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.put_nowait(context))
        hop(0.0, 4).add_done_callback(lambda _: None)
        report = await reports.get()
        assert "never retrieved" in report["message"]
        assert isinstance(report["exception"], RuntimeError)

    on_host(main())


# ---- cancelling


def test_cancel_before_the_start_ends_it_unstarted(on_host: Run) -> None:
    async def main() -> None:
        made = hop(10.0)
        assert made.cancel("why") is True
        assert made.cancelled() and made.done() and made.cancel() is False
        with pytest.raises(asyncio.CancelledError):
            made.result()
        with pytest.raises(asyncio.CancelledError, match="why"):
            await made

    on_host(main())


def test_cancel_ends_it_when_the_worker_has_left_and_not_before(on_host: Run) -> None:
    async def main() -> None:
        made = hop(30.0)
        task = asyncio.create_task(made)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert made.cancel(msg="enough") is True
        assert not made.done()
        assert _native._probe_counts()["jobs"] == 1
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert caught.value.args == ("enough",)
        assert made.cancelled() and _native._probe_counts()["jobs"] == 0

    on_host(main())


def test_a_timeout_stops_the_worker(on_host: Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await hop(30.0)
        assert _native._probe_counts()["jobs"] == 0

    on_host(main())


def test_a_task_cancelled_before_its_first_step_never_starts_it(on_host: Run) -> None:
    async def main() -> None:
        made = nop()
        task = asyncio.create_task(made)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made.cancelled()

    on_host(main())


def test_a_task_cancelled_as_the_work_ends_sees_the_cancel(on_host: Run) -> None:
    async def main() -> None:
        made = hop(0.05)
        task = asyncio.create_task(made)
        made.add_done_callback(lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task

    on_host(main())


def test_closing_a_coroutine_that_waits_stops_the_work(on_host: Run) -> None:
    async def main() -> None:
        made = hop(30.0)

        async def wait() -> None:
            await made

        coroutine = wait()
        assert coroutine.send(None) is made
        coroutine.close()
        assert not made.done()
        ended = asyncio.Event()
        made.add_done_callback(lambda _: ended.set())
        await ended.wait()
        assert made.cancelled()

    on_host(main())


def test_an_exception_thrown_in_comes_out(on_host: Run) -> None:
    async def main() -> None:
        made = hop(30.0)
        made.send(None)
        with pytest.raises(KeyError):
            made.throw(KeyError("x"))
        unstarted = nop()
        with pytest.raises(KeyError):
            unstarted.throw(KeyError, "x")
        assert unstarted.cancelled()

    on_host(main())


# ---- lifetime


def test_dropping_it_in_flight_is_safe(on_host: Run) -> None:
    async def main() -> None:
        for _ in range(100):
            nop().add_done_callback(lambda _: None)
            hop().add_done_callback(lambda _: None)
        gc.collect()
        await hop()
        await asyncio.sleep(0)
        assert _native._probe_counts()["pending"] == 0

    on_host(main())


def test_a_thousand_at_once(on_host: Run) -> None:
    async def main() -> None:
        values = await asyncio.gather(*(nop(each) for each in range(1000)))
        assert values == list(range(1000))
        assert await asyncio.gather(*(hop() for _ in range(1000))) == [False] * 1000

    on_host(main())


def test_a_loop_closed_with_work_in_flight_ends_the_work(on_host: Run) -> None:
    loop = on_host.new_loop()
    calls: list[Any] = []

    async def main() -> Any:
        made = hop(30.0)
        made.add_done_callback(calls.append)
        hop(30.0).add_done_callback(calls.append)
        return made

    made = loop.run_until_complete(main())
    assert not made.done()
    loop.close()
    assert made.cancelled() and not calls
    assert _native._probe_counts() == {"awaitables": 1, "pending": 0, "jobs": 0}


def test_it_takes_weak_references(on_host: Run) -> None:
    async def main() -> None:
        made = nop()
        reference = weakref.ref(made)
        await made
        del made
        await asyncio.sleep(0)
        assert reference() is None

    on_host(main())


def test_awaiting_leaves_no_memory_behind(on_host: Run) -> None:
    async def rounds(count: int) -> None:
        for _ in range(count):
            await nop((1,))
            await immediate(2)
            await hop()
            made = nop()
            made.add_done_callback(lambda _: None)
            made.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main() -> None:
        counts = []
        for _ in range(6):
            await rounds(300)
            counts.append(accounts.allocated_blocks())
        accounts.assert_flat(counts, 300)

    on_host(main())


def test_two_loops_in_two_threads_do_not_meet(on_host: Run) -> None:
    async def main(value: int) -> int:
        return sum(
            await asyncio.gather(*(nop(value) for _ in range(200)), *[hop() for _ in range(50)])
        )

    results: list[int] = []
    threads = [
        threading.Thread(target=lambda v=v: results.append(on_host(main(v)))) for v in (1, 2)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == [200, 400]


PROGRAM = """
import asyncio, sys
from ringloop import _native
import ringloop
async def main():
    made = [_native._probe_hop(5.0) for _ in range(3)]
    for each in made: each.add_done_callback(print)
    await asyncio.sleep(0)
    {end}
{run}
print("end")
"""


@pytest.mark.parametrize("end", ["return", "sys.exit(0)", "raise KeyError"])
def test_the_process_ends_with_work_in_flight(on_host: Run, end: str) -> None:
    factory = {"asyncio": "asyncio.new_event_loop", "uvloop": "__import__('uvloop').new_event_loop"}
    make = factory.get(
        on_host.host, f"lambda: ringloop.new_event_loop(backend={on_host.host[9:]!r})"
    )
    run = f"asyncio.Runner(loop_factory={make}).run(main())"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end, run=run)],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert ran.returncode == (1 if "raise" in end else 0), ran.stderr
    assert "Fatal Python" not in ran.stderr and "Aborted" not in ran.stderr
