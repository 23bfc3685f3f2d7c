"""A virtual clock moves every timer of the loop, and nothing else."""
from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Iterator

import pytest

import ringloop


@pytest.fixture
def clock() -> ringloop.VirtualClock:
    return ringloop.VirtualClock()


@pytest.fixture
def virtual(backend: str, clock: ringloop.VirtualClock) -> Iterator[Any]:
    loop = ringloop.new_event_loop(backend=backend, clock=clock)
    yield loop
    loop.close()


def test_sleeping_a_year_takes_no_time(virtual: Any, clock: Any) -> None:
    begin = time.monotonic()
    virtual.run_until_complete(asyncio.sleep(365 * 86400))
    assert clock.time() == virtual.time() == 365 * 86400
    assert time.monotonic() - begin < 30


def test_the_loops_own_watch_of_signals_is_nothing_to_wait_for(backend: str) -> None:
    """Each jump used to give it `settle` real seconds."""
    loop = ringloop.new_event_loop(backend=backend, clock=ringloop.VirtualClock(settle=60))
    try:
        begin = time.monotonic()
        loop.run_until_complete(asyncio.sleep(3600))
        assert time.monotonic() - begin < 30
    finally:
        loop.close()


def test_timers_fire_in_order_and_never_early(virtual: Any, clock: Any) -> None:
    seen: list[tuple[float, float]] = []
    delays = [0.1, 3600.7, 1e-9, 0.3, 7e5 + 1 / 3, 0.1 + 0.2, 86400 * 120 + 1 / 7, 0]
    for delay in delays:
        when = virtual.time() + delay
        virtual.call_at(when, lambda when=when: seen.append((when, virtual.time())))
    virtual.call_later(1e9, virtual.stop)
    virtual.run_forever()
    assert [when for when, _ in seen] == sorted(delays)
    assert all(now >= when for when, now in seen)


def test_a_time_out_fires_without_waiting(virtual: Any) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 600)

    virtual.run_until_complete(main())
    assert virtual.time() >= 1200


def test_a_test_moves_the_clock_itself(virtual: Any, clock: Any) -> None:
    seen: list[int] = []

    async def main() -> None:
        virtual.call_later(10, seen.append, 10)
        virtual.call_later(20, seen.append, 20)
        clock.advance(15)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == [10] and virtual.time() == 15

    virtual.run_until_complete(main())
    with pytest.raises(ValueError, match="forward only"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="forward only"):
        clock.advance(float("nan"))


def test_bytes_between_tasks_come_before_a_jump(virtual: Any) -> None:
    async def serve(reader: Any, writer: Any) -> None:
        while data := await reader.read(100):
            await asyncio.sleep(60)  # the server's work
            writer.write(data)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for number in range(20):
                async with asyncio.timeout(61):
                    writer.write(b"%4d" % number)
                    assert await reader.readexactly(4) == b"%4d" % number
            assert virtual.time() == 20 * 60
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(1)  # the server's side ends, too: 3.11 does not wait for it

    virtual.run_until_complete(main())


def test_a_silent_peer_meets_its_time_out(virtual: Any) -> None:
    async def main() -> None:
        a, b = socket.socketpair()
        with a, b:
            a.setblocking(False)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3600):
                    await virtual.sock_recv(a, 1)

    virtual.run_until_complete(main())


def test_the_clock_stands_still_while_a_thread_or_a_kernel_works(virtual: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.001):
            assert await virtual.run_in_executor(None, time.sleep, 0.05) is None
        async with asyncio.timeout(0.001):
            await ringloop._native._probe_hop(0.05)
        assert virtual.time() == 0
        await virtual.shutdown_default_executor()

    virtual.run_until_complete(main())


def test_an_endless_timer_is_no_reason_to_jump(virtual: Any) -> None:
    async def main() -> None:
        handle = virtual.call_later(float("inf"), print)
        await virtual.run_in_executor(None, time.sleep, 0.01)
        handle.cancel()
        await virtual.shutdown_default_executor()

    virtual.run_until_complete(main())
    assert virtual.time() == 0


def test_a_clock_of_ones_own_and_one_by_name(backend: str) -> None:
    class Coarse:
        """Floating point seconds since 1970: jumps do not land on the deadline exactly."""

        def __init__(self) -> None:
            self.now = 1.8e9

        def time(self) -> float:
            return self.now

        def advance(self, seconds: float) -> None:
            self.now += seconds

    for clock in (Coarse(), "virtual"):
        loop = ringloop.new_event_loop(backend=backend, clock=clock)
        try:
            begin = loop.time()
            for delay in (1e-7, 0.1, 1 / 3, 1e5):
                loop.run_until_complete(asyncio.sleep(delay))
            assert loop.time() - begin == pytest.approx(1e5 + 0.1 + 1 / 3, abs=1e-5)
        finally:
            loop.close()


def test_a_clock_that_raises_ends_the_run(backend: str) -> None:
    class Broken(ringloop.VirtualClock):
        def advance(self, seconds: float) -> None:
            raise LookupError("no more time")

    loop = ringloop.new_event_loop(backend=backend, clock=Broken())
    try:
        task = loop.create_task(asyncio.sleep(1))
        with pytest.raises(LookupError, match="no more time"):
            loop.run_until_complete(task)
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    finally:
        loop.close()


@pytest.mark.parametrize("wrong", [3, "real", object()])
def test_what_is_no_clock_is_refused(backend: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match="clock must be"):
        ringloop.new_event_loop(backend=backend, clock=wrong)


def test_an_error_of_the_clocks_settle_is_told(backend: str) -> None:
    """Used to be dropped, and the default taken."""
    class Unsettled(ringloop.VirtualClock):
        @property
        def settle(self) -> float:
            raise LookupError("ask later")

        @settle.setter
        def settle(self, seconds: float) -> None:
            pass

    with pytest.raises(LookupError, match="ask later"):
        ringloop.new_event_loop(backend=backend, clock=Unsettled())


def test_a_closed_loop_keeps_its_virtual_time(backend: str) -> None:
    """It used to be the machine's."""
    loop = ringloop.new_event_loop(backend=backend, clock=ringloop.VirtualClock(7.5))
    loop.close()
    assert loop.time() == 7.5
