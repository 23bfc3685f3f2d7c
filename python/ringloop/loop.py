"""EventLoop: asyncio's event loop on one io_uring ring.

What runs per callback or per packet is native (LoopCore and the transports); what runs per
connection or per loop is the running CPython's own BaseEventLoop, which calls the hooks below.
Every method belongs to the loop's thread, except call_soon_threadsafe() and stop's wake-up through
it.
"""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import sys
import threading
from asyncio import base_events, constants, events
from collections.abc import Callable
from typing import Any

from . import _handles, _native
from ._datagram import DatagramMixin
from ._extras import ExtrasMixin
from ._fork import ForkMixin
from ._pipes import PipeMixin
from ._resolve import ResolveMixin
from ._sendfile import SendfileMixin
from ._signals import SignalMixin
from ._sockets import SocketMixin
from ._stalls import StallMixin
from ._subprocess import SubprocessMixin
from ._unix import UnixMixin
from .clock import Clock, clock_of
from .tls import TlsMixin

logger = logging.getLogger("ringloop")

_base: Any = base_events  # its private names are not typed
_HAS_RUN_HOOKS = hasattr(base_events.BaseEventLoop, "_run_forever_setup")  # CPython 3.13
_said: set[str] = set()  # backends that were logged: one line a process


class EventLoop(  # type: ignore[misc]  # the mixins take the loop for their self
    SocketMixin,
    DatagramMixin,
    TlsMixin,
    PipeMixin,
    UnixMixin,
    SendfileMixin,
    SignalMixin,
    SubprocessMixin,
    ResolveMixin,
    ForkMixin,
    StallMixin,
    ExtrasMixin,
    _native.LoopCore,
    base_events.BaseEventLoop,
):
    """An asyncio event loop whose descriptors all belong to one io_uring ring.

    backend: "auto" (io_uring where it works, else epoll), "uring" or "epoll"; None takes the
    environment variable RINGLOOP_BACKEND, else "auto". An explicit choice that cannot be met raises
    OSError. clock: "virtual" or a clock as ringloop.VirtualClock, by which every timer of the loop
    goes then: for tests. Further options: submission_entries, completion_entries, buffer_count (a
    power of two), buffer_size (bytes of each receive buffer). RINGLOOP_DEBUG=1 in the environment
    turns debug mode on, RINGLOOP_STALLS=SECONDS sets stall_limit.
    """

    _thread_id: int | None = None
    _virtual = False

    def __init__(
        self, *, backend: str | None = None, clock: Clock | str | None = None, **options: Any
    ) -> None:
        try:
            options["backend"] = backend or _backend_of_environment()
            _check_options(options)
            options["clock"] = clock_of(clock)
            self._configure(options)
            self._limit_stalls_as_wished()
        except BaseException:
            self._closed = True  # it never was one: __del__ has nothing to warn of
            raise
        self._virtual = clock is not None
        if not os.environ.get("RINGLOOP_KEEP_MALLOC"):
            _native._tune_malloc()
        base_events.BaseEventLoop.__init__(self)
        if os.environ.get("RINGLOOP_DEBUG", "0") not in ("", "0"):
            self.set_debug(True)
        _log_choice(self._capabilities())

    # ---- running

    def run_forever(self) -> None:
        """Runs until stop() is called."""
        try:
            self._run_forever()
        finally:
            if self._is_parents:
                self._leave_to_parent()

    def _run_forever(self) -> None:
        if _HAS_RUN_HOOKS:
            # Outside the try: a refused nested run must not undo the outer one.
            self._run_forever_setup()
            try:
                self._run_with_signals()
            finally:
                self._run_forever_cleanup()
        else:
            self._run_forever_without_hooks()

    def _run_forever_without_hooks(self) -> None:
        """run_forever() of CPython 3.11 and 3.12, around our own turn."""
        self._check_closed()
        self._check_running()
        self._set_coroutine_origin_tracking(self._debug)
        hooks = sys.get_asyncgen_hooks()
        try:
            self._thread_id = threading.get_ident()
            sys.set_asyncgen_hooks(
                firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook
            )
            events._set_running_loop(self)
            self._run_with_signals()
        finally:
            self._stopping = False
            self._thread_id = None
            events._set_running_loop(None)
            self._set_coroutine_origin_tracking(False)
            sys.set_asyncgen_hooks(*hooks)

    def close(self) -> None:
        """Closes the loop: nothing of it is in flight afterwards. Twice is fine.

        While it runs, RuntimeError; where another thread runs it, AffinityError.
        """
        if self.is_closed():  # also the loop of a forked child's parent, which still says it runs
            return
        if self.is_running():
            if self._thread_id == threading.get_ident():
                raise RuntimeError("Cannot close a running event loop")
            raise _native.AffinityError(
                f"Cannot close a running event loop: it runs in thread {self._thread_id}; "
                "loop.call_soon_threadsafe(loop.stop) ends that run"
            )
        try:
            self._close_signals()
        finally:  # also where another thread than the main one closes a loop with handlers
            super().close()  # no global: a loop may be the last thing that an interpreter frees
            self._shut_down()

    def _check_closed(self) -> None:
        if self._closed:
            self._run()  # raises, and says if it was a fork that closed it

    def set_debug(self, enabled: bool) -> None:
        """Turns asyncio's debug mode on or off."""
        base_events.BaseEventLoop.set_debug(self, bool(enabled))

    def _report_handle(self, handle: Any, exception: BaseException) -> None:
        if not (self._is_parents and self._is_of_fork(exception)):
            self.call_exception_handler(_handles.report(handle, exception))

    def _run_handle_debug(self, handle: Any) -> None:
        self._current_handle = handle
        try:
            begin = self.time()
            handle._run()
            duration = self.time() - begin
            if duration >= self.slow_callback_duration:
                what = _base._format_handle(handle)
                _base.logger.warning("Executing %s took %.3f seconds", what, duration)
        finally:
            self._current_handle = None

    # ---- TCP: hooks of BaseEventLoop.create_connection(), create_server(), Server

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: Any,
        waiter: Any = None,
        *,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        **_: Any,  # CPython 3.14.1: context=
    ) -> Any:
        return _native.transport_from_socket(self, sock, protocol, waiter, extra, server)

    def _start_serving(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        sslcontext: Any = None,
        server: Any = None,
        backlog: int = 100,
        ssl_handshake_timeout: float | None = constants.SSL_HANDSHAKE_TIMEOUT,
        ssl_shutdown_timeout: float | None = constants.SSL_SHUTDOWN_TIMEOUT,
        *,
        context: contextvars.Context | None = None,  # CPython 3.15: of the server's making
        **_: Any,
    ) -> None:
        here = context if context is not None else contextvars.copy_context()
        here.run(
            _native.start_serving,
            self,
            protocol_factory,
            sock,
            sslcontext,
            server,
            backlog,
            ssl_handshake_timeout,
            ssl_shutdown_timeout,
        )

    def _stop_serving(self, sock: socket.socket) -> None:
        if self._thread_id not in (None, threading.get_ident()):
            # Not refused: by now the server has forgotten its sockets.
            self.call_soon_threadsafe(self._stop_serving, sock)
            return
        self._remove_unix_path(sock)
        _native.stop_serving(self, sock)


_OPTIONS = {
    "backend",
    "submission_entries",
    "completion_entries",
    "buffer_count",
    "buffer_size",
    "masked_opcodes",
    "driver",
}


def _backend_of_environment() -> str:
    name = os.environ.get("RINGLOOP_BACKEND") or "auto"
    if name not in ("auto", "uring", "epoll"):
        raise ValueError(
            f'unknown backend "{name}" in the environment variable RINGLOOP_BACKEND: '
            'choose "auto", "uring" or "epoll"'
        )
    return name


def _check_options(options: dict[str, Any]) -> None:
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        names = ", ".join(sorted((_OPTIONS | {"clock"}) - {"masked_opcodes", "driver"}))
        raise TypeError(f"unknown option {unknown[0]!r} of the event loop; there are: {names}")
    if not isinstance(options["backend"], str):
        raise TypeError(f'backend must be "auto", "uring" or "epoll", not {options["backend"]!r}')


def _log_choice(what: dict[str, Any]) -> None:
    if what["backend"] not in _said:
        _said.add(what["backend"])
        logger.info("ringloop uses %s: %s", what["backend"], what["reason"])


def new_event_loop(
    *, backend: str | None = None, clock: Clock | str | None = None, **options: Any
) -> EventLoop:
    """A new event loop; the options are EventLoop's.

    Fits asyncio.run(loop_factory=…), Runner and uvicorn's --loop.
    """
    return EventLoop(backend=backend, clock=clock, **options)


os.register_at_fork(after_in_child=_native._after_fork_in_child)
