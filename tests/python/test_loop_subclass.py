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
