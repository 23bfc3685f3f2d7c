"""A callback that raises: ordinary exceptions go to the handler and the loop goes on; SystemExit
and KeyboardInterrupt leave run_forever(), and the loop can be run again."""
from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import Any, Callable

import pytest

FATAL = (SystemExit, KeyboardInterrupt)
Arrange = Callable[[asyncio.AbstractEventLoop, Callable[..., None]], Callable[[], None]]


def once(error: BaseException) -> Callable[..., None]:
    """Raises it when called first; a stock transport calls eof_received() again in the next run."""
    left = [error]

    def raiser(*_: object) -> None:
        if left:
            raise left.pop()

    return raiser


def by_call_soon(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]
                 ) -> Callable[[], None]:
    loop.call_soon(raiser)
    return lambda: None


def by_call_later(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]
                  ) -> Callable[[], None]:
    loop.call_later(0.001, raiser)
    return lambda: None


def by_threadsafe(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]
                  ) -> Callable[[], None]:
    loop.call_soon_threadsafe(raiser)
    return lambda: None


def by_signal(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]) -> Callable[[], None]:
    loop.add_signal_handler(signal.SIGUSR1, raiser)
    loop.call_soon(os.kill, os.getpid(), signal.SIGUSR1)
    return lambda: loop.remove_signal_handler(signal.SIGUSR1) and None


def by_reader(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]) -> Callable[[], None]:
    left, right = socket.socketpair()
    right.send(b"x")

    def readable() -> None:
        left.recv(1)
        raiser()

    loop.add_reader(left, readable)

    def clean() -> None:
        loop.remove_reader(left)
        left.close()
        right.close()

    return clean


class _Protocol(asyncio.Protocol):
    def __init__(self, raiser: Callable[..., None], where: str) -> None:
        self.raiser, self.where = raiser, where
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if self.where == "made":
            self.raiser()

    def data_received(self, data: bytes) -> None:
        if self.where == "data":
            self.raiser()

    def eof_received(self) -> None:
        if self.where == "eof":
            self.raiser()


def _by_protocol(where: str) -> Arrange:
    def arrange(loop: asyncio.AbstractEventLoop, raiser: Callable[..., None]
                ) -> Callable[[], None]:
        left, right = socket.socketpair()
        protocol = _Protocol(raiser, where)
        made = loop.create_task(loop.create_connection(lambda: protocol, sock=left))
        right.send(b"x")
        if where == "eof":
            right.shutdown(socket.SHUT_WR)

        def clean() -> None:
            right.close()
            loop.run_until_complete(asyncio.wait([made]))
            made.exception()
            protocol.transport.abort()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.sleep(0))

        return clean
    return arrange


WAYS: dict[str, Arrange] = {
    "call_soon": by_call_soon, "call_later": by_call_later, "threadsafe": by_threadsafe,
    "signal": by_signal, "reader": by_reader, "connection_made": _by_protocol("made"),
    "data_received": _by_protocol("data"), "eof_received": _by_protocol("eof"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FATAL)
def test_a_fatal_exception_leaves_run_forever_and_the_loop_can_run_again(
        loop: asyncio.AbstractEventLoop, way: str, kind: type[BaseException]) -> None:
    raiser = once(kind("meant"))
    clean = WAYS[way](loop, raiser)
    with pytest.raises(kind, match="meant"):
        loop.run_forever()
    assert not loop.is_running()
    assert loop.run_until_complete(asyncio.sleep(0.001, "again")) == "again"
    clean()


@pytest.mark.parametrize("way", WAYS)
def test_an_ordinary_exception_goes_to_the_handler_and_the_loop_goes_on(
        loop: asyncio.AbstractEventLoop, way: str) -> None:
    seen: list[dict[str, Any]] = []

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        seen.append(context)
        loop.stop()

    raiser = once(ZeroDivisionError("meant"))
    loop.set_exception_handler(handler)
    clean = WAYS[way](loop, raiser)
    loop.run_forever()
    assert [type(context["exception"]) for context in seen] == [ZeroDivisionError]
    assert loop.run_until_complete(asyncio.sleep(0.001, "again")) == "again"
    clean()


@pytest.mark.parametrize("kind", FATAL)
def test_a_fatal_exception_of_a_task_leaves_run_until_complete(
        loop: asyncio.AbstractEventLoop, kind: type[BaseException]) -> None:
    async def main() -> None:
        raise kind("meant")

    with pytest.raises(kind, match="meant"):
        loop.run_until_complete(main())
    assert loop.run_until_complete(asyncio.sleep(0.001, "again")) == "again"


def test_what_was_ready_beside_a_fatal_callback_runs_in_the_next_run(
        loop: asyncio.AbstractEventLoop) -> None:
    order: list[str] = []

    def fatal() -> None:
        raise SystemExit(1)

    loop.call_soon(order.append, "before")
    loop.call_soon(fatal)
    loop.call_soon(order.append, "after")
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert order == ["before", "after"]
