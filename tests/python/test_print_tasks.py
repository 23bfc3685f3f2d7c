"""ringloop.print_tasks, and what else follows a task into native work: inspect, call graphs."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import sys
from typing import Any, AsyncIterator, Awaitable, Callable, Coroutine, Iterator

import pytest
import ringloop
from harness.loops import Run
from ringloop import _native


async def until_it_ends(gate: asyncio.Event) -> None:
    await gate.wait()


async def reads(work: Awaitable[Any]) -> Any:
    return await work


async def deeper(work: Awaitable[Any]) -> Any:
    return await reads(work)


class Wrapped:
    def __init__(self, work: Awaitable[Any]) -> None:
        self.work = work

    def __await__(self) -> Iterator[Any]:
        return reads(self.work).__await__()


async def through_an_object(work: Awaitable[Any]) -> Any:
    return await Wrapped(work)


async def numbers(work: Awaitable[Any]) -> AsyncIterator[Any]:
    yield await work


async def through_a_generator(work: Awaitable[Any]) -> None:
    async for _ in numbers(work):
        pass


async def gathers(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.gather(*tasks)


@contextlib.asynccontextmanager
async def reader() -> AsyncIterator[Callable[[], ringloop.Awaitable[bytes]]]:
    """Makes native reads of a file with nothing in it before the end."""
    file = _native.open_watcher("of nothing")
    try:
        yield lambda: file.read(4096)
    finally:
        await file.close()


@contextlib.asynccontextmanager
async def tasks(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Named t0, t1, …; all of them wait."""
    made = [asyncio.create_task(work, name=f"t{at}") for at, work in enumerate(works)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        for task in made:
            task.cancel()
        await asyncio.wait(made)


def shown(loop: asyncio.AbstractEventLoop | None = None) -> list[str]:
    file = io.StringIO()
    ringloop.print_tasks(loop, file=file)
    return [line.replace(__file__, "here") for line in file.getvalue().splitlines()]


def block(lines: list[str], title: str) -> list[str]:
    """The lines below the title, their line numbers left out."""
    (start,) = (at for at, line in enumerate(lines) if line.startswith(title))
    chain = []
    for line in lines[start + 1:]:
        if not line.startswith("    "):
            break
        chain.append(line.strip().rstrip("0123456789"))
    return chain


READ = "<ringloop.Awaitable read pending>"


@pytest.mark.parametrize(("through", "chain"), [
    (reads, ["reads() at here:"]),
    (deeper, ["deeper() at here:", "reads() at here:"]),
    (through_an_object, ["through_an_object() at here:", "reads() at here:"]),
    (through_a_generator, ["through_a_generator() at here:", "numbers() at here:"]),
])
def test_a_chain_leads_down_to_the_native_work(
    on_host: Run, through: Callable[..., Any], chain: list[str]
) -> None:
    async def main() -> None:
        async with reader() as read, tasks(through(read())):
            lines = shown()
            assert block(lines, f"t0 {through.__name__}() waits") == [*chain, READ]

    on_host(main())


def test_native_work_that_is_a_task_by_itself_is_named(on_host: Run) -> None:
    async def main() -> None:
        async with reader() as read, tasks(read()):
            assert block(shown(), "t0 read() waits") == [READ]

    on_host(main())


def test_what_runs_and_what_is_ready_is_told(on_host: Run) -> None:
    async def main() -> None:
        fresh = asyncio.create_task(asyncio.sleep(0), name="fresh")
        lines = shown()
        assert lines[0] == f"2 tasks of {asyncio.get_running_loop()!r}"
        (runs,) = [line for line in lines if line.endswith(" runs")]
        assert block(lines, runs)[0].endswith("main() at here:")
        assert block(lines, "fresh sleep() is ready")
        await fresh

    on_host(main())


def test_tasks_futures_and_gathers_end_a_chain(on_host: Run) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        first = asyncio.create_task(until_it_ends(gate), name="first")
        second = asyncio.create_task(until_it_ends(gate), name="second")
        plain = asyncio.get_running_loop().create_future()
        async with tasks(reads(first), gathers(first, second), reads(plain)):
            lines = shown()
            assert block(lines, "t0")[-1] == "waits for first until_it_ends()"
            assert block(lines, "t1")[-1] == (
                "gathers 2, waits for first until_it_ends(), second until_it_ends()")
            assert "Future pending" in block(lines, "t2")[-1]
        gate.set()

    on_host(main())


def test_tasks_come_in_the_order_of_their_names(run: Run) -> None:
    async def main() -> None:
        async with tasks(*(asyncio.sleep(60) for _ in range(12))):
            titles = [line.split()[0] for line in shown() if not line.startswith(" ")]
            assert [name for name in titles if name[0] == "t"] == [f"t{at}" for at in range(12)]

    run(main())


def test_another_thread_may_ask(on_host: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with reader() as read, tasks(reads(read())):
            lines = await asyncio.to_thread(shown, loop)
            assert block(lines, "t0 reads() waits") == ["reads() at here:", READ]

    on_host(main())


def test_a_loop_without_tasks_says_so(on_host: Run, capsys: pytest.CaptureFixture[str]) -> None:
    loop = on_host.new_loop()
    try:
        ringloop.print_tasks(loop)
        assert capsys.readouterr().out == f"0 tasks of {loop!r}\n"
    finally:
        loop.close()


def test_a_wrong_loop_or_none_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"no event loop runs in this thread: print_tasks\(loop"):
        ringloop.print_tasks()
    with pytest.raises(TypeError, match="print_tasks\\(\\) takes an event loop, not 5"):
        ringloop.print_tasks(5)


def test_an_awaitable_tells_what_a_coroutine_tells(on_host: Run) -> None:
    async def main() -> None:
        async with reader() as read:
            work: Any = read()
            assert (work.__name__, work.__qualname__, work.cr_code.co_name) == ("read",) * 3
            assert inspect.getcoroutinestate(work) == work.cr_state == inspect.CORO_CREATED
            async with tasks(work) as (task,):
                assert inspect.getcoroutinestate(work) == work.cr_state == inspect.CORO_SUSPENDED
                assert (work.cr_frame.f_code.co_qualname, work.cr_frame.f_lineno) == ("read", 0)
                assert work.cr_await is None and work.cr_origin is None
                assert "coro=<read() running at <native>:0>" in repr(task)
                assert task.get_stack()[0].f_code.co_name == "read"
            assert inspect.getcoroutinestate(work) == work.cr_state == inspect.CORO_CLOSED
            assert work.__name__ == "Awaitable"      # the work is gone

    on_host(main())


def test_a_call_graph_follows_a_task_into_native_work(on_host: Run) -> None:
    if sys.version_info < (3, 14):
        pytest.skip("call graphs are of Python 3.14")

    async def main() -> None:
        async with reader() as read, tasks(deeper(read())) as (task,):
            graph = asyncio.capture_call_graph(task)
            names = [each.frame.f_code.co_name for each in graph.call_stack]
            assert names == ["read", "reads", "deeper"]
            assert "read" in asyncio.format_call_graph(task)

    on_host(main())
