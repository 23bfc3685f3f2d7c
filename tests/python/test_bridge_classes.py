"""Classes, arrays, descriptors and names that extension modules export, by each binding tool.

The module is tests/python/extension/calls.hpp.
"""
from __future__ import annotations

import array
import asyncio
import os
import socket
import typing
from typing import Any

import pytest
import ringloop
from harness.extensions import load
from harness.loops import Run


@pytest.fixture(params=("bridge_calls", "bridge_calls_nanobind"))
def calls(request: pytest.FixtureRequest) -> Any:
    return load(request.param)


# ---- classes


def test_a_static_member_is_called_without_an_object(calls: Any, on_host: Run) -> None:
    """There used to be no way: by def() its first argument was taken for the object."""
    async def main() -> None:
        made = await calls.Derived.made("Ann")
        assert type(made) is calls.Derived and await made.what_name() == "Ann"
        assert await (await calls.Derived.made()).what_name() == "new"
        assert await made.made(its_name="of an object") is not made
        assert await calls.Derived.add(1, 2) == 3

    assert "Makes one." in calls.Derived.made.__doc__
    on_host(main())


def test_a_member_of_a_base_that_is_not_bound_is_one_of_the_class(calls: Any, on_host: Run) -> None:
    """It used to compile, and to take no object that there is."""
    async def main() -> None:
        one = calls.Derived()
        assert await one.what_name() == "base"
        assert [letter async for letter in one.spelled()] == list("base")
        async with one as entered:
            assert entered is one
        assert await one.what_name() == ""

    on_host(main())


def test_a_function_that_takes_the_object_is_a_member(calls: Any, on_host: Run) -> None:
    """It did not compile: its first parameter is a reference."""
    async def main() -> None:
        assert await calls.Derived().called_name() == "the base"
        assert await calls.Derived().called_name(title="a") == "a base"
        assert [each async for each in calls.Derived().spelled_backwards()] == list("esab")
        assert await calls.Derived().length() == 4
        with pytest.raises(TypeError):
            calls.Derived.called_name("no object")

    on_host(main())


def test_exports_of_a_class_go_by_its_name(calls: Any, on_host: Run) -> None:
    """What print_tasks(), stats() and notes say; several classes used to share "__aenter__"."""
    async def main() -> None:
        made = calls.Derived.made()
        assert (made.__name__, made.__qualname__) == ("made", "Derived.made")
        assert "Derived.made" in repr(made)
        await made
        async with calls.Session("Ann"), calls.Derived():
            pass
        names = [each.name for each in ringloop.stats().gil
                 if each.calls != 0 and each.module == calls.__name__]
        assert {"Session.__aenter__", "Session.__aexit__", "Derived.__aenter__",
                "Derived.__aexit__", "Derived.made"} <= set(names)

    on_host(main())


def test_an_awaitable_can_be_written_in_annotations() -> None:
    """Signatures of exports name it so, and it was a TypeError."""
    annotation = ringloop.Awaitable[int]
    assert typing.get_origin(annotation) is ringloop.Awaitable
    assert typing.get_args(annotation) == (int,)


# ---- arrays


def test_an_array_is_taken_without_a_copy(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        numbers = array.array("i", [1, 2, 3])
        work = asyncio.ensure_future(calls.raised(numbers, 5))
        await asyncio.sleep(0)
        with pytest.raises(BufferError):
            numbers.append(4)                     # held
        answer = await work
        assert list(numbers) == [2, 3, 4] and answer.tolist() == [2, 3, 4]
        del answer, work
        await asyncio.sleep(0)                    # asyncio's handle of this step has the task, too
        numbers.append(5)
        assert await calls.mean(array.array("d", [1.0, 2.0])) == 1.5
        assert await calls.mean(array.array("f", [1.0, 2.0])) == 1.5      # the other overload

    on_host(main())


def test_a_cancelled_call_lets_its_array_go(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        numbers = array.array("i", [1])
        work = asyncio.ensure_future(calls.raised(numbers, 3_600_000))
        never_begun = calls.raised(numbers)
        await asyncio.sleep(0)
        work.cancel()
        never_begun.close()
        with pytest.raises(asyncio.CancelledError):
            await work
        del work, never_begun
        await asyncio.sleep(0)
        numbers.append(2)
        assert list(numbers) == [1, 2]

    on_host(main())


@pytest.mark.parametrize("wrong", (
    array.array("f", [1.0]), array.array("I", [1]), array.array("q", [1]), b"1234", [1, 2], None,
    memoryview(array.array("i", range(4)))[::2], memoryview(array.array("i", [1])).toreadonly()),
    ids=("floats", "unsigned", "longs", "bytes", "list", "None", "gaps", "read-only"))
def test_another_array_is_refused_at_the_call(calls: Any, wrong: object) -> None:
    with pytest.raises(TypeError, match="int32"):
        calls.raised(wrong)


def test_an_array_has_its_shape(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        flat = memoryview(bytes(24))
        assert await calls.shape(flat) == [24]
        assert await calls.shape(flat.cast("B", (2, 3, 4))) == [2, 3, 4]
        assert await calls.shape(b"") == [0]

    on_host(main())


# ---- errors, descriptors


def test_a_name_that_is_not_found_is_socket_s_error(calls: Any, on_host: Run) -> None:
    """It was a RuntimeError, which nobody expects of a network."""
    async def main() -> None:
        with pytest.raises(socket.gaierror, match="cannot look up 'nul") as caught:
            await calls.look_up("nul\0l.invalid")
        assert caught.value.errno == socket.EAI_NONAME
        assert caught.value.native_frames == ["look_up"]  # type: ignore[attr-defined]

    on_host(main())


def test_a_descriptor_goes_through_native_code(calls: Any, on_host: Run) -> None:
    """nanobind had no caster for it."""
    async def main() -> None:
        near, far = socket.socketpair()
        with far:
            number = near.fileno()
            with await calls.pass_on(near) as owned:
                assert type(owned) is ringloop.OwnedFd
                assert near.fileno() == -1 and owned.fileno() == number
            with pytest.raises(TypeError):
                calls.pass_on(number)
            with pytest.raises(TypeError):
                calls.pass_on(far, "no number")
            assert far.fileno() != -1             # it has stayed

    on_host(main())


def test_a_cancel_closes_the_descriptor_that_went_in(calls: Any, on_host: Run) -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with far:
            number = near.fileno()
            work = asyncio.ensure_future(calls.pass_on(near, 3_600_000))
            await asyncio.sleep(0)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            with pytest.raises(OSError):
                os.fstat(number)

    on_host(main())
