"""Signals of a loop: add_signal_handler() and a wake-up for Python's own handlers (Ctrl-C).

Python's C handler writes the signal's number to one end of a socket pair (an eventfd would refuse
the single byte); the loop always watches the other end while it runs in the main thread, so no
signal is lost between a check and a wait.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


def _noop(signum: int, frame: Any) -> None:
    """Stands in as the Python-level handler of signals that the loop handles."""


class SignalMixin:
    """The part of EventLoop that handles signals. Main thread only, as in CPython."""

    _signal_handlers: dict[int, tuple[Callable[..., Any], tuple[Any, ...], Context]]
    _signal_pair: tuple[socket.socket, socket.socket] | None = None

    def add_signal_handler(self: Any, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Calls callback(*args) on the loop whenever the signal arrives.

        ValueError, RuntimeError, TypeError as asyncio.
        """
        if asyncio.iscoroutine(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        _check_signal(sig)
        self._check_closed()
        pair = self._make_signal_pair()
        try:
            # Refuses threads other than the main one.
            signal.set_wakeup_fd(pair[1].fileno(), warn_on_full_buffer=False)
        except (ValueError, OSError) as error:
            raise RuntimeError(str(error)) from error
        handlers = self.__dict__.setdefault("_signal_handlers", {})
        handlers[sig] = (callback, args, copy_context())
        try:
            signal.signal(sig, _noop)
            signal.siginterrupt(sig, False)
        except OSError as error:
            del handlers[sig]
            self._release_wakeup()
            raise RuntimeError(f"sig {sig} cannot be caught") from error

    def remove_signal_handler(self: Any, sig: int) -> bool:
        """Restores the default action; True if the loop had a handler for it."""
        _check_signal(sig)
        handlers = self.__dict__.get("_signal_handlers", {})
        if handlers.pop(sig, None) is None:
            return False
        default = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
        try:
            signal.signal(sig, default)
        except OSError as error:
            raise RuntimeError(f"sig {sig} cannot be caught") from error
        self._release_wakeup()
        return True

    # ---- for EventLoop

    def _run_with_signals(self: Any) -> None:
        """_run(), with the wake-up descriptor set where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            self._run()
            return
        pair = self._make_signal_pair()
        try:
            previous = signal.set_wakeup_fd(pair[1].fileno(), warn_on_full_buffer=False)
        except ValueError:  # the main thread of a subinterpreter
            self._run()
            return
        try:
            self._run()
        finally:
            own = pair[1].fileno()
            if self._signal_pair is not None and not self.__dict__.get("_signal_handlers"):
                signal.set_wakeup_fd(previous if previous != own else -1)

    def _close_signals(self: Any) -> None:
        handlers = self.__dict__.get("_signal_handlers", {})
        if sys.is_finalizing():
            if handlers:
                warnings.warn(
                    f"Closing the loop {self!r} on interpreter shutdown stage, "
                    "skipping signal handlers removal",
                    ResourceWarning,
                    source=self,
                )
                handlers.clear()
        else:
            for sig in list(handlers):
                self.remove_signal_handler(sig)
        pair, self._signal_pair = self._signal_pair, None
        if pair is not None:
            self._remove_reader(pair[0].fileno())
            pair[0].close()
            pair[1].close()

    def _make_signal_pair(self: Any) -> tuple[socket.socket, socket.socket]:
        if self._signal_pair is None:
            receiver, sender = socket.socketpair()
            receiver.setblocking(False)
            sender.setblocking(False)
            self._signal_pair = (receiver, sender)
            self._add_reader(receiver.fileno(), self._read_signals)
        pair: tuple[socket.socket, socket.socket] = self._signal_pair
        return pair

    def _release_wakeup(self: Any) -> None:
        if self.__dict__.get("_signal_handlers") or self.is_running():
            return
        try:
            signal.set_wakeup_fd(-1)
        except (ValueError, OSError):
            return  # not the main thread: then it never was ours

    def _read_signals(self: Any) -> None:
        assert self._signal_pair is not None
        try:
            numbers = self._signal_pair[0].recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        handlers = self.__dict__.get("_signal_handlers", {})
        for number in numbers:
            entry = handlers.get(number)
            if entry is not None:
                callback, args, context = entry
                self.call_soon(callback, *args, context=context)


def _check_signal(sig: int) -> None:
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")
