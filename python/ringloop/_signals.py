"""Signals of a loop: add_signal_handler() and a wake-up for Python's own handlers (Ctrl-C).

Python's C handler writes the signal's number to a pipe, whose other end the loop watches whenever
it runs in the main thread: no signal is lost between a check and a wait, and one that comes between
two runs waits in the pipe. A pipe, because it has room for 65,536 numbers; a socket pair is full
after 278, and an eventfd refuses a single byte.

Thread: the main one, as in CPython; a loop elsewhere has no signals. The wake-up descriptor that
was set before is put back when neither a run nor a handler needs ours, and gets what is its own
while ours is set. Errors: as asyncio. Nothing here blocks.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

_NUMBERS_MAX = 65_536  # what a pipe holds: read in one call


class _Relay:
    """The Python-level handler of a signal that a loop handles.

    It names the loop and does nothing: the number in the pipe makes the loop call the callback.
    """

    __slots__ = ("loop",)

    def __init__(self, loop: Any) -> None:
        self.loop = weakref.ref(loop)

    def __call__(self, signum: int, frame: Any) -> None:
        """Called by the interpreter."""


class SignalMixin:
    """The part of EventLoop that handles signals. Main thread only, as in CPython."""

    _signal_handlers: dict[int, tuple[Callable[..., Any], tuple[Any, ...], Context]]
    _signal_pipe: tuple[int, int] | None = None
    _wakeup_before: _Wakeup | None = None

    def add_signal_handler(self: Any, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Calls callback(*args) on the loop whenever the signal arrives.

        ValueError, RuntimeError, TypeError as asyncio.
        """
        if asyncio.iscoroutine(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with add_signal_handler()")
        _check_signal(sig)
        self._check_closed()
        try:
            self._take_wakeup()  # refuses threads other than the main one
        except (ValueError, OSError) as error:
            raise RuntimeError(str(error)) from error
        handlers = self.__dict__.setdefault("_signal_handlers", {})
        before = handlers.get(sig)
        handlers[sig] = (callback, args, copy_context())
        try:
            signal.signal(sig, _Relay(self))
            signal.siginterrupt(sig, False)
        except OSError as error:
            if before is None:
                del handlers[sig]
            if not handlers and not self.is_running():
                self._release_wakeup()
            raise _uncatchable(sig, error) from error

    def remove_signal_handler(self: Any, sig: int) -> bool:
        """Restores the default action; True if the loop had a handler for it."""
        _check_signal(sig)
        handlers = self.__dict__.get("_signal_handlers", {})
        if handlers.pop(sig, None) is None:
            return False
        if _owner(sig, self) is self:  # else another loop has taken it over
            default = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
            try:
                signal.signal(sig, default)
            except OSError as error:
                raise _uncatchable(sig, error) from error
        if not handlers and not self.is_running():
            self._release_wakeup()
        return True

    # ---- for EventLoop

    def _run_with_signals(self: Any) -> None:
        """_run(), with the wake-up descriptor set where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            self._run()
            return
        try:
            self._take_wakeup()
        except ValueError:  # the main thread of a subinterpreter
            self._run()
            return
        try:
            self._run()
        finally:
            if not self.__dict__.get("_signal_handlers"):
                self._release_wakeup()

    def _close_signals(self: Any) -> None:
        handlers = self.__dict__.get("_signal_handlers", {})
        try:
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
        finally:
            self._close_signal_pipe()

    # ---- the wake-up descriptor

    def _take_wakeup(self: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("signals can be handled by a loop in the main thread only")
        if self._signal_pipe is None:
            self._signal_pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add_reader(self._signal_pipe[0], self._read_signals)
        own = self._signal_pipe[1]
        before = signal.set_wakeup_fd(own, warn_on_full_buffer=False)
        if before != own:
            self._wakeup_before = _Wakeup(before)

    def _release_wakeup(self: Any) -> None:
        if self._wakeup_before is None or self.is_closed():
            return  # in a forked child, where both are the parent's
        self._read_signals()
        own, before = self._signal_pipe[1], self._wakeup_before
        self._wakeup_before = None
        current = signal.set_wakeup_fd(-1)
        if current != own:  # replaced while ours was set
            signal.set_wakeup_fd(current)
        else:
            before.put_back()

    def _close_signal_pipe(self: Any) -> None:
        pipe = self._signal_pipe
        if pipe is None:
            return
        if threading.current_thread() is threading.main_thread():
            self._release_wakeup()
        self._signal_pipe = None
        self._remove_reader(pipe[0])
        os.close(pipe[0])
        if self._wakeup_before is None:  # else set, for good: its number must not be reused
            os.close(pipe[1])

    # ---- arrival

    def _read_signals(self: Any) -> None:
        try:
            numbers = os.read(self._signal_pipe[0], _NUMBERS_MAX)
        except BlockingIOError:
            return
        for number in numbers:
            _owner(number, self)._handle_signal(number)
        if self._wakeup_before is not None:
            self._wakeup_before.pass_on(numbers)

    def _handle_signal(self: Any, sig: int) -> None:
        entry = self.__dict__.get("_signal_handlers", {}).get(sig)
        if entry is not None and not self.is_closed():
            callback, args, context = entry
            # Another loop may have read the number: then this one does not run, or elsewhere.
            self.call_soon_threadsafe(callback, *args, context=context)


class _Wakeup:
    """A wake-up descriptor that was set before ours; -1 for none."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_foreign = fd >= 0 and not _is_a_loops(fd)
        self._identity = _identity(fd)

    def pass_on(self, numbers: bytes) -> None:
        """Numbers that arrived while ours was set: code outside any loop may wait for them."""
        if self._is_foreign and _identity(self._fd) == self._identity:
            try:
                os.write(self._fd, numbers)
            except OSError:
                pass  # full: its reader will wake up anyway; or it has no reader any more

    def put_back(self) -> None:
        """Sets it again, unless it was closed meanwhile: its number may be somebody else's now."""
        if self._fd >= 0 and _identity(self._fd) == self._identity:
            signal.set_wakeup_fd(self._fd)


def _identity(fd: int) -> tuple[int, int] | None:
    if fd < 0:
        return None
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_a_loops(fd: int) -> bool:
    """Whether it is the pipe of a loop that has handlers. A loop without them keeps none set."""
    for number in signal.valid_signals():
        loop = _owner(number, None)
        if loop is not None and loop._signal_pipe is not None and loop._signal_pipe[1] == fd:
            return True
    return False


def _owner(number: int, default: Any) -> Any:
    """The loop whose handler is set for the signal; `default` if it is no loop's."""
    try:
        handler = signal.getsignal(number)
    except ValueError:  # no signal has this number
        return default
    loop = handler.loop() if isinstance(handler, _Relay) else None
    return default if loop is None or loop.is_closed() else loop


def _check_signal(sig: int) -> None:
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")


def _uncatchable(sig: int, error: OSError) -> Exception:
    return RuntimeError(f"sig {sig} cannot be caught") if error.errno == errno.EINVAL else error


def _after_fork_in_child() -> None:
    # The pipe is shared with the parent, which would take this process's signals for its own.
    # CPython 3.12 and later do the same.
    signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_after_fork_in_child)
