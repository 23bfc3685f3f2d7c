"""What EventLoop adds to BaseEventLoop around its runs: refusals that say what to do, the executor
under a virtual clock, counters.

Thread: the loop's.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import warnings
import weakref
from asyncio import base_events, events, trsock
from typing import Any

from . import _native

_base: Any = base_events.BaseEventLoop


class _Refused:
    """An attribute that the loop does not have, and why; an instance may still be given it.

    Not by way of __getattr__: a class that has one makes a bound method of every method that is
    called, which costs call_soon() a third of its time.
    """

    def __init__(self, kind: type[Exception], sentence: str) -> None:
        self._kind, self._sentence = kind, sentence

    def __get__(self, loop: object, owner: type) -> Any:
        if loop is None:
            return self
        raise self._kind(self._sentence)


class ExtrasMixin:
    """Cold parts of EventLoop without a subject of their own."""

    def _check_running(self: Any) -> None:
        if self.is_running():
            raise RuntimeError(
                "This event loop is already running: inside it (in a notebook, too) use "
                "'await coroutine' or asyncio.create_task(coroutine); from another thread "
                "asyncio.run_coroutine_threadsafe(coroutine, loop)"
            )
        if events._get_running_loop() is not None:
            raise RuntimeError(
                "Cannot run the event loop while another loop is running in this thread: "
                "await there, or run this loop in a thread of its own"
            )

    _nest_patched = _Refused(  # asked for by nest_asyncio before it replaces run methods
        RuntimeError,
        "nest_asyncio cannot nest ringloop's event loop: use 'await' (notebooks allow it "
        "at the top level), or asyncio's own loop for this program",
    )
    _selector = _Refused(
        AttributeError, "ringloop's event loop has no _selector: use add_reader()"
    )

    def __dir__(self) -> list[str]:
        # Tools read all that dir() names.
        return [name for name in super().__dir__() if name not in ("_nest_patched", "_selector")]

    def run_in_executor(self: Any, executor: Any, func: Any, *args: Any) -> Any:
        """Calls func(*args) in the executor (None: the loop's own); a future of its result."""
        future = _base.run_in_executor(self, executor, func, *args)
        if self._virtual:
            self._busy_elsewhere += 1
            future.add_done_callback(self._is_back)
        return future

    if sys.version_info[:2] == (3, 12):  # whose first releases wait on behind the timeout

        async def shutdown_default_executor(self: Any, timeout: float | None = None) -> None:
            """Waits for the default executor's threads; RuntimeWarning after `timeout` seconds."""
            self._executor_shutdown_called = True
            if self._default_executor is None:
                return
            ended = self.create_future()
            threading.Thread(target=self._do_shutdown, args=(ended,)).start()
            await asyncio.wait({ended}, timeout=timeout)
            if ended.done():
                return ended.result()
            warnings.warn(
                "The executor did not finishing joining its threads within "
                f"{timeout} seconds.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _is_back(self: Any, _: Any) -> None:
        self._busy_elsewhere -= 1

    def print_debug_info(self: Any) -> None:
        """Prints counters of this loop's driver and of the process's handles, to stderr."""
        lines = [f"---- {self!r}"]
        if not self.is_closed():
            lines += [f"{name:>16}: {count}" for name, count in self._counters().items()]
        lines.append("---- alive in this process")
        lines += [f"{name:>16}: {count}" for name, count in _native.ledger().items()]
        sys.stderr.write("\n".join(lines) + "\n")


class TransportSocket(trsock.TransportSocket):
    """What get_extra_info("socket") of a native transport gives.

    Who uses the connection by itself from here on finds what was written before on its way, as
    where write() sends at once: a relay that ends its write side so lost its last piece.
    """

    __slots__ = ("_transport",)

    def __init__(self, sock: socket.socket, transport: Any) -> None:
        super().__init__(sock)
        self._transport = weakref.ref(transport)

    def shutdown(self, how: int) -> None:
        """Ends receiving, sending or both."""
        self._send_written()
        super().shutdown(how)

    def dup(self) -> socket.socket:
        """A socket on a duplicate of the descriptor."""
        self._send_written()
        return super().dup()

    def _send_written(self) -> None:
        transport = self._transport()
        if transport is None or transport._loop is None:
            return
        if transport._loop._thread_id in (None, threading.get_ident()):
            transport._send_now()


def closed_socket(family: int) -> trsock.TransportSocket:
    """For a native transport whose connection is gone: what get_extra_info("socket") gives where
    nobody asked before. OSError where no descriptor is free."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        return trsock.TransportSocket(sock)


def send_without_loop(sock: socket.socket, data: Any) -> None:
    """For a native transport that outlived its loop: all of it now, or RuntimeError."""
    data = memoryview(data).cast("B")
    try:
        if sock.send(data) == len(data):
            return
    except OSError as error:
        raise RuntimeError("Event loop is closed") from error
    raise RuntimeError("Event loop is closed")
