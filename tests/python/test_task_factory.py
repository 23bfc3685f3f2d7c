"""ringloop.task_factory and NativeTask, on every host."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import weakref
from typing import Any, Callable, Coroutine

import pytest
import ringloop
from harness.loops import Run

eager_only = pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks need Python 3.12")


async def answer(value: Any = 5, turns: int = 1) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


def on(host: Run, main: Callable[[], Coroutine[Any, Any, Any]], factory: Any) -> Any:
    """Runs main() on a loop with that task factory."""
    loop = host.new_loop()
    loop.set_task_factory(factory)
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_tasks_are_native_tasks_with_numbers(on_host: Run) -> None:
    async def main() -> None:
        own: Any = asyncio.current_task()
        tasks: list[Any] = [asyncio.create_task(answer(at)) for at in range(3)]
        numbers = [task.node_id for task in (own, *tasks)]
        assert all(type(task) is ringloop.NativeTask for task in (own, *tasks))
        assert len(set(numbers)) == 4 and min(numbers) >= 1
        assert numbers == [task.node_id for task in (own, *tasks)]
        assert await asyncio.gather(*tasks, answer(3)) == [0, 1, 2, 3]

    on(on_host, main, ringloop.task_factory())


def test_names_contexts_and_groups_are_asyncio_s(on_host: Run) -> None:
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="none")

    async def read() -> str:
        await asyncio.sleep(0)
        return word.get()

    async def main() -> None:
        context = contextvars.copy_context()
        context.run(word.set, "given")
        async with asyncio.TaskGroup() as group:
            given = group.create_task(read(), name="named", context=context)
            plain = asyncio.create_task(read())
        assert (given.get_name(), given.result(), plain.result()) == ("named", "given", "none")
        assert plain.get_name().startswith("Task-")

    on(on_host, main, ringloop.task_factory())


def test_a_cancel_is_a_task_s(on_host: Run) -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel("why")
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.create_task(asyncio.sleep(60))

    on(on_host, main, ringloop.task_factory())


def test_values_errors_and_cancels_reach_who_awaits(on_host: Run) -> None:
    raised = LookupError("the very one")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise raised

    async def gives_up() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError("enough")

    async def wait(task: Any) -> Any:
        return await task

    async def main() -> None:
        told: list[Any] = []
        value = asyncio.create_task(answer(None))
        value.add_done_callback(told.append)
        assert await asyncio.gather(wait(value), wait(value)) == [None, None]
        assert told == [value]                      # a callback of somebody's gets the task itself
        with pytest.raises(LookupError) as caught:
            await asyncio.create_task(fails())
        assert caught.value is raised
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await asyncio.create_task(gives_up())

    on(on_host, main, ringloop.task_factory())


def test_native_work_may_be_a_task(on_host: Run) -> None:
    async def main() -> None:
        task = asyncio.create_task(ringloop._native._probe_nop(7))
        assert type(task) is ringloop.NativeTask and await task == 7

    on(on_host, main, ringloop.task_factory())


def test_an_existing_factory_goes_on_to_make_the_tasks(on_host: Run) -> None:
    class Theirs(asyncio.Task[Any]):
        pass

    asked: list[Any] = []

    def existing(loop: Any, coro: Any, **named: Any) -> Any:
        asked.append(named)
        return Theirs(coro, loop=loop, **named)

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(answer(), name="named")
        assert type(task) is Theirs and task.get_name() == "named"
        assert await task == 5
        assert len(asked) == 2 and all("eager_start" not in named for named in asked)

    on(on_host, main, ringloop.task_factory(factory=existing))
    asked.clear()
    on(on_host, main, ringloop.task_factory(factory=ringloop.task_factory(factory=existing)))


@eager_only
@pytest.mark.parametrize("own", [True, False])
def test_eager_tasks_begin_at_once(on_host: Run, own: bool) -> None:
    async def main() -> None:
        done = asyncio.create_task(answer(3, turns=0))
        assert done.done() and done.result() == 3
        assert isinstance(done, ringloop.NativeTask) is own
        waits = asyncio.create_task(answer(4))
        assert not waits.done() and await waits == 4

    async def begin() -> None:
        await asyncio.create_task(main())

    factory = (ringloop.task_factory(eager=True) if own
               else ringloop.task_factory(factory=asyncio.eager_task_factory))
    on(on_host, begin, factory)


@eager_only
def test_a_single_task_may_ask_to_be_eager_or_not(run: Run) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        factory = loop.get_task_factory()
        assert factory.eager and factory.factory is None
        lazy = factory(loop, answer(1, turns=0), eager_start=False)
        eager = ringloop.task_factory()(loop, answer(2, turns=0), eager_start=True)
        assert not lazy.done() and eager.done()
        assert await lazy == 1

    on(run, main, ringloop.task_factory(eager=True))


def test_it_works_in_debug_mode(on_host: Run) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(ringloop.task_factory())
        assert await asyncio.create_task(answer(6)) == 6

    on_host(main(), debug=True)


def test_a_task_is_freed_with_its_last_reference(on_host: Run) -> None:
    async def main() -> None:
        gc.collect()
        gc.disable()
        try:
            task = asyncio.create_task(answer())
            await task
            gone = weakref.ref(task)
            del task
            await asyncio.sleep(0)
            assert gone() is None
        finally:
            gc.enable()

    on(on_host, main, ringloop.task_factory())


def test_a_pending_task_that_is_dropped_is_told_of(on_host: Run) -> None:
    class Own(ringloop.NativeTask[Any]):
        pass

    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        reports: list[Any] = []
        loop.set_exception_handler(lambda _, report: reports.append(report["message"]))
        for task_type in (ringloop.NativeTask, Own):
            task: Any = task_type(waits(), loop=loop, name="dropped")
            assert task.get_name() == "dropped" and task.node_id == task.node_id
            task.note = "its own"                   # a task has a dictionary
            await asyncio.sleep(0)
            gone = weakref.ref(task)
            del task
            gc.collect()
            assert gone() is None
        assert reports == ["Task was destroyed but it is pending!"] * 2

    on_host(main())


def test_what_is_no_coroutine_is_refused_as_by_asyncio(on_host: Run) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        with pytest.raises(TypeError, match="a coroutine was expected, got 5"):
            loop.create_task(5)
        work = answer()
        with pytest.raises(TypeError):
            loop.create_task(work, colour="red")
        with pytest.raises(TypeError, match="called with a loop and a coroutine"):
            loop.get_task_factory()(work)
        work.close()

    on(on_host, main, ringloop.task_factory())


def test_a_wrong_factory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="factory is a task factory, not 5"):
        ringloop.task_factory(factory=5)
    with pytest.raises(ValueError, match="eager is for our own tasks: give factory=asyncio.eager"):
        ringloop.task_factory(eager=True, factory=asyncio.Task)
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    with pytest.raises(RuntimeError, match="eager tasks need Python 3.12"):
        ringloop.task_factory(eager=True)
