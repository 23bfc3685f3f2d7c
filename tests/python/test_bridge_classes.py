"""Classes and names that extension modules export, by each binding tool.

The module is tests/python/extension/calls.hpp.
"""
from __future__ import annotations

import asyncio
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
