"""What the garbage collector frees of native awaitables and iterators, and in which order.

The module is tests/python/extension/memory.cpp.
"""
from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from typing import Any, Callable

import pytest
from harness.extensions import load
from harness.loops import Run

native = load("bridge_memory")
calls = load("bridge_calls")


class Thing:
    """With attributes, so that it may hold what holds it; it can be called."""

    made: Any = None

    def __call__(self) -> int:
        return 1


def collect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)    # "was never awaited", rightly
        gc.collect()


def is_freed(make: Callable[[Thing], Any]) -> bool:
    thing = Thing()
    thing.made = make(thing)
    gone = weakref.ref(thing)
    del thing
    assert gone() is not None, "no cycle: nothing to collect"
    collect()
    return gone() is None


@pytest.mark.parametrize("make", [
    lambda thing: native.with_one(thing),
    lambda thing: native.with_function(thing),
    lambda thing: native.with_many([1, thing, thing]),
    lambda thing: native.with_some(thing, []),
    lambda thing: native.with_some(None, [("one", thing)]),
    lambda thing: native.with_witness(None, thing),
])
def test_a_cycle_through_arguments_that_wait_for_the_await(make: Callable[[Thing], Any]) -> None:
    assert is_freed(make)


def test_what_somebody_else_holds_as_well_is_not_garbage() -> None:
    thing = Thing()
    thing.made = native.with_copied(thing)
    seen = weakref.ref(thing)
    del thing
    collect()
    held = seen()
    assert held is not None and held.made is not None
    del held
    native.drop_copy()
    collect()
    assert seen() is None


def test_a_cycle_through_a_result(on_host: Run) -> None:
    gone: list[weakref.ref[Thing]] = []

    async def main() -> None:
        thing = Thing()
        holder: list[Any] = []
        thing.made = awaited = native.same(holder)
        gone.append(weakref.ref(thing))
        assert await awaited is holder
        holder.append(thing)

    on_host(main())
    collect()
    assert gone[0]() is None


def test_a_cycle_that_only_the_awaitable_can_break(on_host: Run) -> None:
    """Its result is a tuple, which the collector cannot empty: the awaitable gives it up."""
    gone: list[weakref.ref[Thing]] = []

    async def main() -> None:
        thing = Thing()
        gone.append(weakref.ref(thing))
        future = asyncio.get_running_loop().create_future()
        awaited = calls.wait_for(future)
        future.set_result((awaited, thing))
        assert (await awaited)[0] is awaited

    on_host(main())
    collect()
    assert gone[0]() is None


def test_a_finalizer_may_take_an_awaitable_back(on_host: Run) -> None:
    seen: list[Any] = []

    class Curious:
        def __init__(self) -> None:
            self.made = native.with_one(self)

        def __del__(self) -> None:
            seen.append(self.made)

    async def main() -> None:
        Curious()
        collect()
        await seen.pop()          # nothing of it was cleared

    on_host(main())


def test_callbacks_and_their_context(on_host: Run) -> None:
    gone: list[weakref.ref[Thing]] = []

    async def main() -> None:
        thing = Thing()
        gone.append(weakref.ref(thing))
        thing.made = native.forever()
        thing.made.add_done_callback(lambda _, keep=thing: None)
        thing.made.cancel()
        await asyncio.sleep(0.01)

    on_host(main())
    collect()
    assert gone[0]() is None


def test_an_iterator_of_an_object_that_holds_it() -> None:
    node = native.Node()
    node.iterator = node.numbers()
    gone, iterator_gone = weakref.ref(node), weakref.ref(node.iterator)
    del node
    collect()
    assert gone() is None and iterator_gone() is None


def test_a_step_keeps_the_object_whole_while_its_iterator_is_garbage(on_host: Run) -> None:
    """Found by reading: the iterator showed a reference that it shared with its steps, so the
    collector emptied an object that a step went on to use."""
    async def main() -> None:
        node = native.Node()
        node.iterator = node.numbers()
        step = node.iterator.__anext__()
        seen = weakref.ref(node)
        del node
        collect()
        assert seen() is not None and hasattr(seen(), "iterator")
        assert await step == 0
        del step
        collect()
        assert seen() is None

    on_host(main())


def test_weakref_callbacks_run_before_the_native_destructor() -> None:
    order: list[int] = []

    def watched(in_a_cycle: bool) -> weakref.ref[Any]:
        thing = Thing()
        made = native.with_witness(None, thing)
        if in_a_cycle:
            thing.made = made
        return weakref.ref(made, lambda _: order.append(native.ends()))

    for in_a_cycle in (True, False):
        native.ends()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            watch = watched(in_a_cycle)
            gc.collect()
        assert watch() is None and native.ends() == 1
    assert order == [0, 0]


def test_ten_thousand_cycles_leave_nothing() -> None:
    def one() -> None:
        thing = Thing()
        thing.made = native.with_many([thing])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        gc.collect()
        for _ in range(10_000):
            one()
        gc.collect()
    # What is left the harness would find: awaitables in the ledger.
