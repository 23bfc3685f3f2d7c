"""Subclasses of EventLoop: one that forgets super().__init__(), one with a time() of its own."""
from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Iterator

import pytest

import ringloop
from ringloop import _native


async def nothing() -> None:
    pass


@pytest.fixture
def bare() -> Any:
    """A loop whose __init__() has not run."""
    return ringloop.EventLoop.__new__(ringloop.EventLoop)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        a.setblocking(False)
        b.setblocking(False)
        yield a, b


CALLS: dict[str, Callable[[Any, socket.socket], Any]] = {
    "call_soon": lambda loop, sock: loop.call_soon(print),
    "call_soon_threadsafe": lambda loop, sock: loop.call_soon_threadsafe(print),
    "call_later": lambda loop, sock: loop.call_later(1, print),
    "call_at": lambda loop, sock: loop.call_at(1, print),
    "run_forever": lambda loop, sock: loop.run_forever(),
    "run_in_executor": lambda loop, sock: loop.run_in_executor(None, print),
    "add_reader": lambda loop, sock: loop.add_reader(sock, print),
    "add_writer": lambda loop, sock: loop.add_writer(sock, print),
    "add_signal_handler": lambda loop, sock: loop.add_signal_handler(10, print),
    "sock_recv": lambda loop, sock: loop.sock_recv(sock, 1),
    "sock_recv_into": lambda loop, sock: loop.sock_recv_into(sock, bytearray(1)),
    "sock_sendall": lambda loop, sock: loop.sock_sendall(sock, b"1"),
    "sock_accept": lambda loop, sock: loop.sock_accept(sock),
    "sock_sendto": lambda loop, sock: loop.sock_sendto(sock, b"1", ("127.0.0.1", 9)),
    "sock_recvfrom": lambda loop, sock: loop.sock_recvfrom(sock, 1),
    "_capabilities": lambda loop, sock: loop._capabilities(),
    "_counters": lambda loop, sock: loop._counters(),
    "start_serving": lambda loop, sock: _native.start_serving(loop, print, sock),
    "transport_from_socket": lambda loop, sock: _native.transport_from_socket(
        loop, sock, asyncio.Protocol()),
    "datagram_transport": lambda loop, sock: _native.datagram_transport(
        loop, sock, asyncio.DatagramProtocol(), None, None, {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_needs_the_loop_says_that_its_init_has_not_run(
        bare: Any, pair: tuple[socket.socket, socket.socket], call: str) -> None:
    """Each of these used to end the process by a segmentation fault."""
    with pytest.raises(RuntimeError, match=r"EventLoop\.__init__\(\) has not run"):
        CALLS[call](bare, pair[0])


def test_a_loop_without_init_cannot_run_a_coroutine(bare: Any) -> None:
    coroutine = nothing()
    with pytest.raises(RuntimeError, match=r"super\(\)\.__init__\(\)"):
        bare.run_until_complete(coroutine)
    coroutine.close()


def test_a_loop_without_init_can_be_shown_asked_and_closed(bare: Any) -> None:
    assert "closed=True" in repr(bare)
    assert bare.is_closed() and not bare.is_running()
    assert bare.time() == pytest.approx(time.monotonic(), abs=5)
    assert bare.remove_reader(0) is False
    bare.close()


def test_a_subclass_that_calls_another_init_is_refused_there() -> None:
    class Skips(ringloop.EventLoop):
        def __init__(self) -> None:
            asyncio.BaseEventLoop.__init__(self)

    with pytest.raises(RuntimeError, match="has not run"):
        Skips()


def test_a_subclass_that_uses_the_loop_too_early_is_refused() -> None:
    class Early(ringloop.EventLoop):
        def __init__(self) -> None:
            self.call_soon(print)
            super().__init__()

    with pytest.raises(RuntimeError, match="has not run"):
        Early()


def test_a_closed_loop_cannot_be_declared_open(loop: Any) -> None:
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop._closed = False
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_soon(print)


# ---- time()

def now_from_zero(loop: Any, begin: float = time.monotonic()) -> float:
    return time.monotonic() - begin


def epoch(loop: Any) -> float:
    return time.time()


def fast(loop: Any) -> float:
    return time.monotonic() * 10


@pytest.fixture(params=["subclass", "instance", "class, later"])
def loop_with(request: pytest.FixtureRequest, backend: str,
              monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], Any]]:
    """Makes a loop with this time()."""
    made: list[Any] = []

    def make(function: Any) -> Any:
        kind: Any = type("Timed", (ringloop.EventLoop,),
                         {"time": function} if request.param == "subclass" else {})
        loop = kind(backend=backend)
        made.append(loop)
        if request.param == "instance":
            loop.time = function.__get__(loop)
        if request.param == "class, later":
            kind.time = function
            loop.run_until_complete(nothing())      # each run looks
        return loop

    yield make
    for loop in made:
        loop.close()
        loop.__dict__.pop("time", None)


@pytest.mark.parametrize("function, least_s", [(epoch, 0.2), (now_from_zero, 0.2), (fast, 0.02)])
def test_timers_go_by_a_time_of_the_programs_own(loop_with: Any, function: Any,
                                                 least_s: float) -> None:
    """sleep() used to end at once, or never."""
    loop = loop_with(function)
    begin = time.monotonic()
    loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0.2), 100))
    assert least_s * 0.9 <= time.monotonic() - begin < 30


def test_a_time_that_is_moved_by_hand_makes_timers_due(loop_with: Any) -> None:
    now = [1000.0]
    loop = loop_with(lambda loop: now[0])
    seen: list[str] = []
    loop.call_later(50, seen.append, "50")
    loop.call_later(10, seen.append, "10")
    loop.call_at(1000, seen.append, "0")

    async def main() -> None:
        for moved in (0, 15, 0, 100):
            now[0] += moved
            seen.append(f"at {now[0]:.0f}")
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(0))
    assert seen == ["at 1000", "0", "at 1015", "at 1015", "10", "at 1115", "50"]


def test_an_error_in_time_ends_the_run(loop_with: Any) -> None:
    broken = False

    def function(loop: Any) -> float:
        if broken:
            raise ZeroDivisionError("no time")
        return time.monotonic()

    loop = loop_with(function)
    handle = loop.call_later(1000, print)
    loop.run_until_complete(nothing())
    broken = True
    with pytest.raises(ZeroDivisionError, match="no time"):
        loop.run_forever()
    broken = False
    handle.cancel()
    loop.run_until_complete(nothing())


def test_a_time_that_is_taken_away_again_leaves_the_loops_own(loop: Any) -> None:
    loop.time = lambda: 5.0
    assert loop.call_later(1, print).when() == 6.0
    del loop.time
    loop.run_until_complete(asyncio.sleep(0.01))
    assert loop.time() == pytest.approx(time.monotonic(), abs=5)


def test_a_subclass_may_shift_a_virtual_clock(backend: str) -> None:
    class Shifted(ringloop.EventLoop):
        def time(self) -> float:
            return super().time() + 1e6

    clock = ringloop.VirtualClock()
    loop = Shifted(backend=backend, clock=clock)
    try:
        loop.run_until_complete(asyncio.sleep(3600))
        assert clock.time() == pytest.approx(3600)
    finally:
        loop.close()
