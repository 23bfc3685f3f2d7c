"""py::fast: exported functions at the cost of a C call (tests/python/extension/quick.cpp)."""
from __future__ import annotations

import array
import sys

import numpy
import pytest
from harness.extensions import load
from harness.loops import Run

quick = load("bridge_quick")


def test_values_are_converted_both_ways() -> None:
    assert quick.sum(array.array("d", [1.0, 2.5])) == 3.5
    assert quick.sum_released(numpy.arange(10.0)) == 45.0
    assert quick.sum(array.array("d")) == 0
    assert quick.small(-128) == -128 and quick.large(2**64 - 1) == 2**64 - 1
    assert quick.negate(0) is True and quick.negate("x") is False
    assert quick.greet("W\u00f6rld") == "hello W\u00f6rld"
    assert quick.turned(b"abc") == b"cba" == quick.turned(bytearray(b"abc"))
    thing = object()
    assert quick.same(thing) is thing and quick.is_none(None) and not quick.is_none(0)
    room = bytearray(3)
    assert quick.fill(room, 7) is None and room == b"\x07\x07\x07"


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(OverflowError, match="128 does not fit into 8 bits"):
        quick.small(128)
    with pytest.raises(OverflowError):
        quick.large(-1)
    with pytest.raises(OverflowError):
        quick.large(2**64)
    with pytest.raises(TypeError, match="an integer is required, not str"):
        quick.large("1")
    with pytest.raises(TypeError, match="a str is required, not bytes"):
        quick.greet(b"bytes")
    with pytest.raises(TypeError, match=r"sum\(\) takes 1 arguments, not 2"):
        quick.sum(1, 2)
    with pytest.raises(TypeError, match="of format 'f', 4 bytes"):
        quick.sum(array.array("f", [1.0]))
    with pytest.raises(TypeError, match="2 dimensions"):
        quick.sum(numpy.zeros((2, 2)))
    with pytest.raises(TypeError, match="of format 'q'"):
        quick.sum(array.array("q", [1]))
    with pytest.raises((BufferError, ValueError)):
        quick.sum(numpy.arange(10.0)[::2])          # not contiguous
    with pytest.raises((BufferError, TypeError)):
        quick.fill(b"read-only", 1)
    with pytest.raises(ValueError, match="nobody to greet"):
        quick.greet("")


def test_references_are_neither_lost_nor_gained() -> None:
    thing = object()
    before = sys.getrefcount(thing)
    for _ in range(10_000):
        quick.same(thing)
        quick.is_none(thing)
    assert sys.getrefcount(thing) == before


def test_functions_may_run_python_code(on_host: Run) -> None:
    class Failing:
        def __str__(self) -> str:
            raise KeyError("no words")

    async def main() -> None:
        assert quick.described(5) == await quick.described_later(5) == "5"
        with pytest.raises(KeyError, match="no words"):
            quick.described(Failing())
        with pytest.raises(KeyError, match="no words"):
            await quick.described_later(Failing())

    on_host(main())


def test_coroutines_are_awaitables(on_host: Run) -> None:
    async def main() -> None:
        assert await quick.later(5) == 5
        assert await quick.nothing() is None
        with pytest.raises(IndexError, match="negative"):
            await quick.later(-1)

    on_host(main())


def test_an_outcome_that_is_known_at_the_call_is_done(on_host: Run) -> None:
    async def main() -> None:
        for function in (quick.perhaps, quick.perhaps_by_def):
            known = function("text", True)
            assert known.done() and known.result() == "text"
            assert await function("text", True) == "text"
            later = function("text", False)
            assert not later.done() and await later == "text"
            with pytest.raises(ValueError, match="nothing given"):
                function("", True)
        assert quick.perhaps_nothing(True).done()
        assert await quick.perhaps_nothing(True) is None
        assert await quick.perhaps_nothing(False) is None

    on_host(main())
