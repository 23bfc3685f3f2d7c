"""Exceptions that pass between an extension module's coroutines and Python: what they keep, and
what they cannot pass for. test_bridge.py has the table of their types.
"""
from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from harness.extensions import load
from harness.loops import Run

MODULES = ("bridge_calls", "bridge_calls_nanobind")


@pytest.fixture(params=MODULES)
def calls(request: pytest.FixtureRequest) -> Any:
    return load(request.param)


def raises(exception: BaseException) -> Any:
    def at_once(*_: object) -> int:
        raise exception

    return at_once


def fails(exception: BaseException) -> Any:
    async def later(*_: object) -> int:
        await asyncio.sleep(0)
        raise exception

    return later


def test_stop_iteration_is_no_result(calls: Any, on_host: Run) -> None:
    """It used to end the await as a return of its value."""
    async def main() -> None:
        for begin in (lambda made: made, asyncio.ensure_future):
            stopped = StopIteration("no result")
            with pytest.raises(RuntimeError, match="coroutine raised StopIteration") as caught:
                await begin(calls.sum([1], raises(stopped)))
            assert caught.value.__cause__ is stopped

    on_host(main())


def test_a_generator_that_fails_has_not_ended(calls: Any, on_host: Run) -> None:
    """StopAsyncIteration from within used to end `async for`, StopIteration to be a value."""
    async def main() -> None:
        for stopped in (StopAsyncIteration("within"), StopIteration("within")):
            with pytest.raises(RuntimeError, match="async generator raised Stop") as caught:
                async for _ in calls.called(raises(stopped)):
                    pass
            assert caught.value.__cause__ is stopped

    on_host(main())


@pytest.mark.parametrize("function", [raises, fails])
def test_the_traceback_leads_to_where_python_raised(calls: Any, on_host: Run,
                                                    function: Any) -> None:
    """It used to end where the await stands."""
    async def main() -> None:
        made = calls.sum([1], function(ValueError("here")))
        with pytest.raises(ValueError) as caught:
            await made
        for _ in range(2):    # raised again, it does not grow
            with pytest.raises(ValueError) as again:
                made.result()
            assert again.value is caught.value
        names = [each.name for each in traceback.extract_tb(caught.value.__traceback__)]
        assert names == ["main", "at_once" if function is raises else "later"]

    on_host(main())


@pytest.mark.parametrize(("how", "kind"), [("latin-1", RuntimeError),
                                           ("latin-1 name", FileNotFoundError)])
def test_words_that_are_no_utf_8_leave_the_type_as_it_is(calls: Any, on_host: Run, how: str,
                                                         kind: type[Exception]) -> None:
    """Every such exception used to be a UnicodeDecodeError: a file's name was enough."""
    async def main() -> None:
        with pytest.raises(kind, match=r"caf\\xe9") as caught:
            await calls.fail(how, False)
        assert type(caught.value) is kind and caught.value.__cause__ is None

    on_host(main())


def test_python_s_exception_is_the_cause_of_a_native_one(calls: Any, on_host: Run) -> None:
    """The cause used to be a RuntimeError with its text; types that the tool knows had none."""
    async def main() -> None:
        reason = KeyError("reason")
        with pytest.raises(calls.OwnError) as caught:
            await calls.fail_because_of(raises(reason))
        assert caught.value.__cause__ is reason
        assert caught.value.native_frames == ["fail_because_of"]

    on_host(main())


def test_causes_are_translated_by_the_binding_tool_too(calls: Any, on_host: Run) -> None:
    """A registered type used to be a RuntimeError there."""
    async def main() -> None:
        with pytest.raises(RuntimeError, match="because of it") as caught:
            await calls.fail_by_an_own_reason()
        assert type(caught.value.__cause__) is calls.OwnError
        assert str(caught.value.__cause__) == "reason"

    on_host(main())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_translator_that_sets_no_exception_leaves_it_to_the_table(calls: Any, on_host: Run,
                                                                    at_once: bool) -> None:
    """It used to crash the process."""
    async def main() -> None:
        with pytest.raises((RuntimeError, SystemError)):
            await calls.fail("ignored", at_once)

    on_host(main())


def test_a_translator_may_throw_another_exception(calls: Any, on_host: Run) -> None:
    """That one used to be dropped: the first was raised."""
    async def main() -> None:
        with pytest.raises(IndexError, match="replaced"):
            await calls.fail("replaced", True)

    on_host(main())


def test_an_argument_without_a_type_in_python_is_an_error(calls: Any, on_host: Run) -> None:
    """pybind11 says so by a null object, which Python was called with."""
    async def main() -> None:
        with pytest.raises(TypeError):
            await calls.show_a_stranger(print)

    on_host(main())
