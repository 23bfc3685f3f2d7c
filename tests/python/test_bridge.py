"""py::def: coroutines of an extension module, awaited from Python under every loop.

The module is tests/python/extension/calls.hpp, once by pybind11 and once by nanobind.
"""
from __future__ import annotations

import asyncio
import collections.abc
import contextvars
import gc
import socket
import sys
import threading
import weakref
from typing import Any

import pytest
import ringloop
from harness.extensions import load
from harness.loops import Run
from harness.tcp import turns

MODULES = ("bridge_calls", "bridge_calls_nanobind")


@pytest.fixture(params=MODULES)
def calls(request: pytest.FixtureRequest) -> Any:
    return load(request.param)


def listening() -> socket.socket:
    """By hand: uvloop starts threads that stay, to find out what "127.0.0.1" is."""
    return socket.create_server(("127.0.0.1", 0))


def test_a_call_gives_an_awaitable_and_runs_nothing(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        made = calls.fail("runtime", True)
        assert type(made) is ringloop.Awaitable and not made.done()
        assert "fail" in repr(made)
        made.close()
        assert await calls.nothing() is None
        assert await calls.add(1) == 11
        assert await calls.add(one=1, other=2) == 3
        assert await calls.twice(21) == 42
        assert await calls.wait(1, "answer") == "answer"

    on_host(main())


def test_what_does_not_wait_costs_no_turn(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        turned: list[int] = []
        asyncio.get_running_loop().call_soon(turned.append, 1)
        for _ in range(100):
            assert await calls.add(1, 2) == 3
        assert not turned

    on_host(main())


def test_native_timers_are_on_time_however_many_began_before(calls: Any, on_host: Run) -> None:
    """Under a foreign loop, from the ninth await of a turn on, none was set: what ended at once by
    a timer then waited for ever, and a short one for the first long one."""
    async def main() -> None:
        for _ in range(50):
            assert await calls.wait(0, "at once") == "at once"
        waits = [(24 * 3600_000, "long")] * 20 + [(1, "short")]
        tasks = [asyncio.ensure_future(calls.wait(*each)) for each in waits]
        assert await tasks.pop() == "short"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    on_host(main())


def test_bad_arguments_are_refused_at_the_call(calls: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        calls.add("one")
    with pytest.raises(TypeError):
        calls.sum([1], "not callable")
    with pytest.raises(TypeError):
        calls.ask("127.0.0.1", 1, "text is no bytes")


def test_none_is_an_object_like_others(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        assert await calls.keep(None) is None
        assert await calls.keep(object=None, delay_ms=0) is None
        assert await calls.wait_for(calls.nothing()) is None

    on_host(main())


def test_values_are_cast_both_ways(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        made = await calls.reflected(calls.Point(1, -2))
        assert type(made) is calls.Point and (made.x, made.y) == (-1, 2)
        total = await calls.moved([made, calls.Point(3, 4)], calls.reflected)
        assert (total.x, total.y) == (-2, -6)
        with pytest.raises((TypeError, RuntimeError), match="str"):
            await calls.moved([made], lambda _: "no point")

    on_host(main())


def test_an_answer_may_be_there_at_the_call(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        for known in (True, False):
            assert await calls.perhaps("text", known) == "text"
        with pytest.raises(ValueError, match="nothing given"):
            calls.perhaps("", True)

    on_host(main())


def test_signatures_show_in_docstrings(calls: Any) -> None:
    assert "-> ringloop.Awaitable[int]" in calls.add.__doc__ and "Adds." in calls.add.__doc__
    assert "-> ringloop.Awaitable[None]" in calls.nothing.__doc__
    assert "-> collections.abc.AsyncIterator[int]" in calls.count.__doc__
    assert "collections.abc.Callable" in calls.sum.__doc__


def test_everything_of_asyncio_takes_it(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        assert await asyncio.gather(calls.wait(1, "a"), calls.add(1), calls.wait(2, "b")) \
            == ["a", 11, "b"]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(calls.wait(1, str(each))) for each in range(20)]
        assert [task.result() for task in tasks] == [str(each) for each in range(20)]
        assert await asyncio.wait_for(calls.wait(1, "in time"), 10) == "in time"
        assert await asyncio.shield(calls.wait(1, "shielded")) == "shielded"
        answers = [await each for each in asyncio.as_completed([calls.wait(1, "x")])]
        assert answers == ["x"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await calls.forever()

    on_host(main())


def test_sockets_of_the_loop_s_own_ring(calls: Any, on_host: Run) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with await asyncio.start_server(answer, sock=listening()) as server:
            port = server.sockets[0].getsockname()[1]
            asked = [calls.ask("127.0.0.1", port, f"question {n}".encode()) for n in range(50)]
            answers = await asyncio.gather(*asked)
        assert answers == [f"QUESTION {n}".encode() for n in range(50)]
        with pytest.raises(ConnectionRefusedError):
            await calls.ask("127.0.0.1", port, bytearray(b"nobody"))

    on_host(main())


# ---- cancellation


def test_a_cancel_stops_the_coroutine_and_waits_for_it(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        calls.cleaned_up()
        for delay in (0, 0.001):
            task = asyncio.ensure_future(calls.careful())
            await asyncio.sleep(delay)
            assert task.cancel("enough")
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
        assert calls.cleaned_up() >= 1

    on_host(main())


def test_a_cancelled_accept_of_silence_leaves_no_socket(calls: Any, on_host: Run) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(silent, sock=listening()) as server:
            port = server.sockets[0].getsockname()[1]
            tasks = [asyncio.ensure_future(calls.ask("127.0.0.1", port, b"?")) for _ in range(20)]
            await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in done)

    on_host(main())


def test_an_error_on_the_way_out_is_not_hidden_by_the_cancel(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(calls.clumsy())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(ValueError, match="could not clean up"):
            await task

    on_host(main())


def test_a_shielded_section_runs_to_its_end(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        entered, may_leave = asyncio.Event(), asyncio.Event()

        async def gate() -> None:
            entered.set()
            await may_leave.wait()

        calls.cleaned_up()
        task = asyncio.ensure_future(calls.stubborn(gate))
        await entered.wait()
        task.cancel()
        await turns()
        assert not task.done()
        may_leave.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert calls.cleaned_up() == 1

    on_host(main())


def test_many_cancels_leave_nothing(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        for _ in range(20):
            tasks = [asyncio.ensure_future(calls.forever()) for _ in range(100)]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in done)

    on_host(main())


def test_a_loop_that_closes_ends_what_is_under_way(calls: Any, on_host: Run) -> None:
    loop = on_host.new_loop()

    async def main() -> Any:
        pending = calls.forever()
        pending.add_done_callback(lambda _: None)
        waiting = calls.wait_for(asyncio.sleep(3600))
        waiting.add_done_callback(lambda _: None)
        await asyncio.sleep(0)
        return pending, waiting

    pending, waiting = loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):    # the sleep: Python's, which the loop's owner ends
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    gc.collect()
    assert pending.done() or on_host.host in ("asyncio", "uvloop")
    del pending, waiting
    gc.collect()


# ---- errors


@pytest.mark.parametrize("at_once", (True, False))
@pytest.mark.parametrize(("how", "kind"), (
    ("invalid_argument", ValueError), ("out_of_range", IndexError), ("overflow", OverflowError),
    ("not_found", FileNotFoundError), ("timeout", TimeoutError), ("limit", TimeoutError),
    ("memory", MemoryError),
    ("runtime", RuntimeError), ("nothing of std", RuntimeError), ("own", LookupError),
    ("answered", BufferError), ("key", KeyError), ("unsupported", NotImplementedError)))
def test_errors_keep_their_meaning(calls: Any, on_host: Run, how: str, kind: type[Exception],
                                   at_once: bool) -> None:
    async def main() -> None:
        with pytest.raises(kind) as caught:
            await calls.fail(how, at_once)
        assert caught.value.native_frames == ["fail"]  # type: ignore[attr-defined]
        assert caught.value.__notes__ == ["native: fail"]
        assert caught.value.__cause__ is None
        if how == "own":
            assert type(caught.value) is calls.OwnError
        if how == "not_found":
            assert isinstance(caught.value, OSError) and caught.value.errno == 2

    on_host(main())


def test_a_stop_without_a_cancel_is_a_cancelled_await(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await calls.fail("cancelled", False)

    on_host(main())


def test_nested_exceptions_become_causes(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="third") as caught:
            await calls.fail_for_a_reason()
        second = caught.value.__cause__
        assert isinstance(second, IndexError) and str(second) == "second"
        first = second.__cause__
        assert isinstance(first, ConnectionResetError)
        for each in (caught.value, second, first):
            assert each.__context__ is None or each.__suppress_context__

    on_host(main())


# ---- Python from native code


def test_python_functions_are_called_and_their_awaitables_awaited(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        async def slowly(value: int) -> int:
            await asyncio.sleep(0.001)
            return value * 3

        assert await calls.sum([1, 2, 3], lambda value: value * 2) == 12
        assert await calls.sum([1, 2, 3], slowly) == 18
        assert await calls.sum([1, 2], lambda value: calls.add(value, 1)) == 5

    on_host(main())


def test_what_python_raises_passes_native_code_unchanged(calls: Any, on_host: Run) -> None:
    raised = ValueError("the very one")

    def fail(_: int) -> int:
        raise raised

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise raised

    async def main() -> None:
        for awaitable in (calls.sum([1], fail), calls.wait_for(fail_later())):
            with pytest.raises(ValueError) as caught:
                await awaitable
            assert caught.value is raised
        assert await calls.what_it_raises(fail_later()) == "ValueError: the very one"

    on_host(main())


def test_python_awaitables_are_awaited(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_later(0.001, future.set_result, "future")
        assert await calls.wait_for(future) == "future"
        assert await calls.wait_later_for(asyncio.sleep(0.001, "coroutine")) == "coroutine"
        assert await calls.wait_for(calls.wait(1, "native")) == "native"
        assert await calls.wait_for(calls.wait_for(calls.add(1))) == 11
        with pytest.raises(TypeError):
            await calls.wait_for(5)

    on_host(main())


def test_a_cancel_reaches_the_python_task_that_native_code_awaits(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        ended: list[str] = []
        begun = asyncio.Event()

        async def inner() -> None:
            try:
                begun.set()
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.001)
                ended.append("inner")

        for wait in (calls.wait_for, calls.wait_later_for):
            begun.clear()
            task = asyncio.ensure_future(wait(inner()))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended.pop() == "inner"     # and not before: native code waits for it

    on_host(main())


def test_a_python_task_may_refuse_the_cancel(calls: Any, on_host: Run) -> None:
    async def stays(begun: asyncio.Event) -> str:
        try:
            begun.set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
        raise KeyError("instead")

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.ensure_future(calls.wait_for(stays(begun)))
        await begun.wait()
        task.cancel()
        with pytest.raises(KeyError, match="instead"):
            await task

    on_host(main())


def test_a_python_task_that_refused_a_cancel_hears_of_the_next(calls: Any, on_host: Run) -> None:
    """The second cancel used to get lost: the await went on until the task ended by itself."""
    async def main() -> None:
        heard: list[int] = []
        begun = asyncio.Event()

        async def stays() -> None:
            for number in range(3):
                try:
                    begun.set()
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    heard.append(number)

        for wait in (calls.wait_for, calls.wait_later_for):
            task = asyncio.ensure_future(wait(stays()))
            for number in range(3):
                await begun.wait()
                begun.clear()
                assert heard == list(range(number))
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert heard == [0, 1, 2]
            heard.clear()

    on_host(main())


def test_groups_of_native_tasks_call_python(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        seen: list[int] = []

        async def note(value: int) -> None:
            await asyncio.sleep(0)
            seen.append(value)

        await calls.call_group(note, 10)
        assert sorted(seen) == list(range(10))

        async def fail(value: int) -> None:
            if value == 3:
                raise LookupError("three")
            await asyncio.sleep(3600)

        with pytest.raises(LookupError, match="three"):
            await calls.call_group(fail, 10)

    on_host(main())


# ---- context


NAME = contextvars.ContextVar[str]("NAME", default="default")


def test_what_calls_beside_each_other_set_they_keep_for_themselves(calls: Any,
                                                                   on_host: Run) -> None:
    """They used to be in one context: a span of the first was the parent of the second's."""
    found: list[str] = []

    async def each(number: int) -> None:
        found.append(NAME.get())
        NAME.set(str(number))
        await asyncio.sleep(0)
        assert NAME.get() == str(number)

    async def main() -> None:
        NAME.set("outer")
        await calls.call_group(each, 3)
        assert found == ["outer"] * 3 and NAME.get() == "outer"

    on_host(main())


def test_context_variables_are_those_of_the_await(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        assert await calls.variable(NAME, True) == "default"
        NAME.set("outer")
        assert await calls.variable(NAME, True) == "outer"
        pending = asyncio.ensure_future(calls.variable(NAME, False))
        await asyncio.sleep(0)
        NAME.set("later")
        assert await pending == "outer"
        assert await calls.variable(NAME, False) == "later"
        assert await calls.inherits_context()

        async def name() -> str:
            return NAME.get()

        assert await calls.wait_for(name()) == "later"
        seen: list[str] = []
        await calls.call_group(lambda _: seen.append(NAME.get()), 1)
        assert seen == ["later"]

    on_host(main())


# ---- the GIL and references


def test_references_may_end_without_the_gil(calls: Any, on_host: Run) -> None:
    class Thing:
        pass

    async def main() -> None:
        thing = Thing()
        gone = weakref.ref(thing)
        made = [calls.keep(thing, 1), calls.keep(thing, 0)]
        del thing
        await asyncio.gather(*made)
        made.clear()
        for _ in range(1000):
            if gone() is None:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("still there")

    on_host(main())


def test_the_gil_policy_of_an_export(calls: Any, on_host: Run) -> None:
    def counted(name: str) -> dict[str, int]:
        found = [each for each in ringloop._native.export_statistics() if each["name"] == name]
        assert len(found) == sum(module in sys.modules for module in MODULES)
        return {key: sum(each[key] for each in found)
                for key in ("calls", "held_ns", "released_ns")}

    async def main() -> None:
        before = counted("spin_released")
        await calls.spin_released(300)
        after = counted("spin_released")
        assert after["calls"] == before["calls"] + 1
        assert after["released_ns"] - before["released_ns"] >= 300_000
        assert after["held_ns"] == before["held_ns"]
        await calls.spin_held(300)
        for _ in range(20):
            await calls.spin_automatic(300)
        turned = counted("spin_automatic")
        assert turned["held_ns"] >= 300_000         # the first, before it was known to be long
        assert turned["released_ns"] >= 300_000     # the later ones

    on_host(main())


def test_another_thread_runs_while_the_gil_is_released(calls: Any, on_host: Run) -> None:
    went_on = threading.Event()

    async def main() -> None:
        thread = threading.Thread(target=went_on.set)
        begun = asyncio.get_running_loop().time()
        thread.start()
        while not went_on.is_set():
            await calls.spin_released(1000)
            assert asyncio.get_running_loop().time() - begun < 60
        thread.join()

    on_host(main())


def test_a_cycle_through_an_unstarted_await_is_collected(calls: Any, on_host: Run) -> None:
    class Holder:
        awaitable: Any = None

    async def main() -> None:
        holder = Holder()
        holder.awaitable = calls.keep(holder, 1)
        holder.awaitable.cancel()       # never awaited, on purpose
        holder.awaitable = calls.wait_for(holder)
        gone = weakref.ref(holder)
        del holder
        with pytest.warns(RuntimeWarning, match="never awaited"):
            gc.collect()
        assert gone() is None

    on_host(main())


def test_what_is_never_awaited_is_told(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="wait.* was never awaited"):
            calls.wait(1, "for nothing")
        made = calls.wait(1, "closed")
        made.close()
        del made

    on_host(main())


def test_in_debug_mode_the_warning_says_where_it_was_made(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        with pytest.warns(RuntimeWarning, match="never awaited") as caught:
            calls.wait(1, "for nothing")
        text = str(caught[0].message)
        assert "created at (most recent call last)" in text
        assert text.rstrip().splitlines()[-1].endswith("in main")
        assert __file__ in text

    on_host(main(), debug=True)


def test_several_loops_in_several_threads(calls: Any, on_host: Run) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        async def main() -> None:
            for n in range(30):
                answers = await asyncio.gather(*(calls.wait(1, str(each)) for each in range(5)))
                assert answers == [str(each) for each in range(5)]
                assert await calls.sum([n], lambda value: value) == n

        try:
            on_host(main())
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- generators and objects


def test_generators_are_asynchronous_iterators(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        for delay in (0, 1):
            assert [each async for each in calls.count(5, delay)] == [0, 1, 2, 3, 4]
        values = calls.count(3)
        assert isinstance(values, collections.abc.AsyncIterator) and "count" in repr(values)
        assert await anext(values) == 0
        await values.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(values)
        assert await anext(values, "default") == "default"
        letters = []
        with pytest.raises(IndexError, match="no more"):
            async for letter in calls.broken():
                letters.append(letter)
        assert letters == ["one"]

    on_host(main())


def test_a_step_that_is_cancelled_too_late_loses_nothing(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        for pause in (0, 0.001, 0.002, 0.003):
            values = calls.count(3, 2)
            step = asyncio.ensure_future(anext(values))
            await asyncio.sleep(pause)
            step.cancel()
            try:
                first = [await step]
            except asyncio.CancelledError:
                first = []
            rest = [each async for each in values]
            assert first + rest == [0, 1, 2] or (first + rest == [] and pause < 0.003)

    on_host(main())


def test_one_step_at_a_time(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        values = calls.count(3, 20)
        step = asyncio.ensure_future(anext(values))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already running"):
            await anext(values)
        with pytest.raises(RuntimeError, match="already running"):
            await values.aclose()
        assert await step == 0
        await values.aclose()

    on_host(main())


def test_members_keep_their_object_alive(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        assert await calls.Session("Ann").greet("Bob") == "Ann greets Bob"
        assert [each async for each in calls.Session("Ann").letters()] == ["A", "n", "n"]
        gc.collect()
        assert calls.sessions() == 0
        with pytest.raises(TypeError):
            calls.Session.greet("no session", "Bob")

    on_host(main())


def test_objects_are_context_managers(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        made = calls.Session("Ann")
        async with made as entered:
            assert entered is made and made.is_open
        assert not made.is_open
        with pytest.raises(KeyError, match="inside"):
            async with calls.Session("Bob") as other:
                raise KeyError("inside")
        assert not other.is_open

    on_host(main())
