"""Pipes of EventLoop: CPython's own pipe transports over our readers and writers, mended.

A pipe transport owns the pipe object it was given and closes it once, after connection_lost(). The
mends concern endings (aborted twice, lost twice, closed before it was watched, closed by its user),
what is sent of a buffer whose items are no bytes, and peers that send instead of going away.
Thread: the loop's.
"""

from __future__ import annotations

import select
from asyncio import unix_events
from typing import Any

_unix: Any = unix_events  # its private names are not typed


class _PipeEnd:
    """What both directions share: a transport ends once, with nothing of it left on the loop."""

    _pipe: Any = None  # also where __init__ fails before it has the pipe's number
    _loop: Any
    _fileno: int

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        if self._pipe is None:
            return
        if self._has_its_number():
            # A transport closed before connection_made() is watched from behind its end.
            self._loop._remove_reader(self._fileno)
            self._loop._remove_writer(self._fileno)
        super()._call_connection_lost(exc)  # type: ignore[misc]  # the stock class's

    def _has_its_number(self) -> bool:
        """False where the pipe was closed by its user: the number may be another file's by now."""
        try:
            return bool(self._pipe.fileno() == self._fileno)
        except ValueError:
            return False


class ReadPipeTransport(_PipeEnd, _unix._UnixReadPipeTransport):  # type: ignore[misc]
    """The reading end of a pipe or FIFO, a socket, or a character device."""

    def __init__(
        self, loop: Any, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> None:
        pipe.fileno()  # a closed pipe: refused before there is anything to finalize
        super().__init__(loop, pipe, protocol, waiter, extra)

    def is_reading(self) -> bool:
        """Whether data is taken: neither paused nor closing."""
        return not self._paused and not self._closing  # early 3.11, Debian 12's, has none

    def _read_ready(self) -> None:
        if self._paused:  # there connection_made() may pause before the watch begins
            self._loop._remove_reader(self._fileno)
        else:
            super()._read_ready()


class WritePipeTransport(_PipeEnd, _unix._UnixWritePipeTransport):  # type: ignore[misc]
    """The writing end of a pipe or FIFO, a socket, or a character device."""

    _buffer: bytearray

    def __init__(
        self, loop: Any, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> None:
        pipe.fileno()
        super().__init__(loop, pipe, protocol, waiter, extra)

    def write(self, data: Any) -> None:
        """Sends `data` as it is now, at once where the pipe has room."""
        if isinstance(data, memoryview):
            # The stock transport takes a number of written bytes for a number of items.
            data = data.cast("B") if data.c_contiguous and data.nbytes else data.tobytes()
        super().write(data)

    def abort(self) -> None:
        """Drops what is not sent and closes; again, or after the end, it is nothing."""
        if self._pipe is not None:
            self._close(None)

    def _read_ready(self) -> None:
        poll = select.poll()
        poll.register(self._fileno, select.POLLRDHUP)
        if poll.poll(0):
            super()._read_ready()
        else:  # the peer has sent something: it is not gone, and nobody reads here
            self._loop._remove_reader(self._fileno)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        if not self._buffer:  # else resume_writing() wrote more before it closed: that goes first
            super()._call_connection_lost(exc)


class PipeMixin:
    """The part of EventLoop that makes pipe transports: hooks of connect_read_pipe(),
    connect_write_pipe() and of subprocesses."""

    def _make_read_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> ReadPipeTransport:
        return ReadPipeTransport(self, pipe, protocol, waiter, extra)

    def _make_write_pipe_transport(
        self, pipe: Any, protocol: Any, waiter: Any = None, extra: Any = None
    ) -> WritePipeTransport:
        return WritePipeTransport(self, pipe, protocol, waiter, extra)
