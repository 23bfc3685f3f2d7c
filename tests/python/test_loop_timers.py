"""Timers: order, precision, cancel, edges."""
from __future__ import annotations

import asyncio
import random
import socket
import time
from typing import Any


def test_timers_fire_in_order_of_their_deadlines(loop: Any) -> None:
    seen: list[int] = []
    now = loop.time()
    order = list(range(300))
    random.Random(1).shuffle(order)
    for i in order:
        loop.call_at(now + i * 1e-6, seen.append, i)
    loop.call_at(now + 300 * 1e-6, loop.stop)
    loop.run_forever()
    assert seen == list(range(300))


def test_equal_deadlines_keep_the_order_of_insertion(loop: Any) -> None:
    seen: list[int] = []
    when = loop.time()
    for i in range(200):
        loop.call_at(when, seen.append, i)
    loop.call_at(when, loop.stop)
    loop.run_forever()
    assert seen == list(range(200))


def test_no_timer_fires_early(loop: Any) -> None:
    early: list[float] = []
    rng = random.Random(2)
    left = 400

    def check(when: float) -> None:
        nonlocal left
        if loop.time() < when:
            early.append(when)
        left -= 1
        if left == 0:
            loop.stop()

    for _ in range(left):
        when = loop.time() + rng.random() * 0.02
        loop.call_at(when, check, when)
    loop.run_forever()
    assert early == []


def test_time_is_the_monotonic_clock(loop: Any) -> None:
    before = time.monotonic()
    now = loop.time()
    assert before <= now <= time.monotonic()


def test_a_zero_or_negative_delay_is_a_timer_behind_what_is_ready(loop: Any) -> None:
    seen: list[str] = []
    zero = loop.call_later(0, seen.append, "zero")
    loop.call_later(-1, seen.append, "past")
    loop.call_soon(seen.append, "soon")
    loop.call_soon(loop.stop)
    assert isinstance(zero, asyncio.TimerHandle)
    loop.run_forever()
    assert seen == ["soon", "past", "zero"]


def test_a_timer_that_reschedules_itself_in_the_past_does_not_block_the_loop(loop: Any) -> None:
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        if count < 100:
            loop.call_at(0, again)
        else:
            loop.stop()

    loop.call_at(0, again)
    loop.run_forever()
    assert count == 100


def test_cancelled_timers_are_removed_at_once(loop: Any) -> None:
    from ringloop import _native

    before = _native.ledger()["handles"]
    handles = [loop.call_later(1000 + i % 7, print) for i in range(10_000)]
    random.Random(3).shuffle(handles)
    while handles:
        handles.pop().cancel()
    assert _native.ledger()["handles"] == before


def test_a_timer_may_cancel_another_that_is_due_with_it(loop: Any) -> None:
    seen: list[str] = []
    when = loop.time()
    handles: list[Any] = []
    loop.call_at(when, lambda: handles[0].cancel())
    handles.append(loop.call_at(when, seen.append, "no"))
    loop.call_at(when, loop.stop)
    loop.run_forever()
    assert seen == []


def test_endless_deadlines_are_taken(loop: Any) -> None:
    for when in (float("inf"), 1e300, 1e18):
        handle = loop.call_at(when, print)
        assert handle.when() == when
        handle.cancel()
    loop.call_at(float("-inf"), loop.stop)
    loop.run_forever()


def test_not_a_number_is_due_at_once_as_in_asyncio(loop: Any) -> None:
    handle = loop.call_later(float("nan"), loop.stop)
    assert handle.when() != handle.when()
    loop.run_forever()


def test_timers_compare_by_deadline(loop: Any) -> None:
    first, second = loop.call_at(1e9, print), loop.call_at(2e9, print)
    assert first < second and first <= second and second > first and first != second
    assert hash(first) == hash(1e9)
    first.cancel()
    second.cancel()


def test_an_overridden_clock_moves_call_later(backend: str) -> None:
    import ringloop

    class Shifted(ringloop.EventLoop):
        def time(self) -> float:
            return super().time() + 1000.0

    shifted = Shifted(backend=backend)
    try:
        handle = shifted.call_later(5, print)
        assert handle.when() > time.monotonic() + 1000
        handle.cancel()
    finally:
        shifted.close()


def test_a_flood_of_handles_lets_io_and_timers_through(loop: Any) -> None:
    """A turn took all that had come during the last: with threads that post, seconds of it."""
    seen: list[str] = []
    ran = 0

    def count() -> None:
        nonlocal ran
        ran += 1

    near, far = socket.socketpair()
    with near, far:
        far.send(b"x")
        loop.add_reader(near, lambda: (seen.append("io"), loop.remove_reader(near)))
        loop.call_soon(lambda: None)
        loop.call_later(0.0, lambda: seen.append("timer"))
        at: dict[str, int] = {}

        def look() -> None:
            for each in seen:
                at.setdefault(each, ran)
            count()

        for _ in range(100_000):
            loop.call_soon(look)
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert ran == 100_000
    assert set(at) == {"io", "timer"}
    assert max(at.values()) < 50_000


def test_stop_in_a_flood_runs_what_was_ready_before_it(loop: Any) -> None:
    ran: list[int] = []
    loop.call_soon(loop.stop)
    for number in range(40_000):
        loop.call_soon(ran.append, number)
    loop.run_forever()
    assert ran == list(range(40_000))
