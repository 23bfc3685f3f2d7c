"""sendfile() and sock_sendfile() of EventLoop: the native path under BaseEventLoop's checks.

The file's pages go to the socket inside the kernel, a bounded piece at a time; between pieces the
loop turns. A transport whose file is on its way refuses write() and lets close() and write_eof()
wait for it; abort() or a lost connection ends it with ConnectionError. Cancelled at any point,
nothing is left waiting, and the file's position says what was sent. Thread: the loop's.
"""

from __future__ import annotations

import errno
import io
import os
import socket
import stat
from asyncio import Future, exceptions
from collections.abc import Awaitable, Callable
from typing import Any

# Large enough to hide the call's own cost, small enough for the loop to stay responsive while a
# fast reader keeps the socket writable.
_PIECE_BYTES = 1 << 20

# The connection is at fault, not the file: reading it through a buffer would fail the same way.
_CONNECTION_ERRORS = frozenset(
    (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTUNREACH)
)


class SendfileMixin:
    """The part of EventLoop that sends files: hooks of sendfile() and sock_sendfile()."""

    async def _sock_sendfile_native(
        self: Any, sock: socket.socket, file: Any, offset: int, count: int | None
    ) -> int:
        _check_regular(file)
        turn = await self._sock_send_turn(sock)
        try:
            return await _send(sock, file, offset, count, lambda: self._sock_writable(sock))
        finally:
            del turn  # whoever writes to that socket next begins

    async def _sendfile_native(
        self: Any, transp: Any, file: Any, offset: int, count: int | None
    ) -> int:
        sock = transp._sock
        self._check_sendfile_params(sock, file, offset, count)
        _check_regular(file)
        queue_empty = transp._make_empty_waiter()
        reading = transp.is_reading()
        try:
            # As asyncio: what comes meanwhile waits, so that no callback wants to answer it.
            transp.pause_reading()
            await queue_empty
            return await _send(sock, file, offset, count, lambda: self._transport_writable(transp))
        finally:
            transp._reset_empty_waiter()
            if reading and not transp.is_closing():
                transp.resume_reading()

    async def _transport_writable(self: Any, transp: Any) -> None:
        waiter = transp._renew_empty_waiter()
        fd = transp._sock_fd
        self._add_writer(fd, _finish, waiter)
        try:
            await waiter
        finally:
            self._remove_writer(fd)


def _finish(waiter: Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _check_regular(file: Any) -> None:
    """SendfileNotAvailableError unless it is a file that the kernel can send."""
    try:
        fd = file.fileno()
        mode = os.fstat(fd).st_mode
    except (AttributeError, io.UnsupportedOperation, OSError):
        mode = 0
    if not stat.S_ISREG(mode):
        raise exceptions.SendfileNotAvailableError("not a regular file")


async def _send(
    sock: socket.socket,
    file: Any,
    offset: int,
    count: int | None,
    writable: Callable[[], Awaitable[None]],
) -> int:
    sent = 0
    try:
        while count is None or sent < count:
            # Both numbers are asked for each time: one of them may have been closed meanwhile.
            piece = _PIECE_BYTES if count is None else min(_PIECE_BYTES, count - sent)
            try:
                done = os.sendfile(sock.fileno(), file.fileno(), offset + sent, piece)
            except (BlockingIOError, InterruptedError):
                await writable()
                continue
            except OSError as error:
                if sent or error.errno in _CONNECTION_ERRORS:
                    raise
                raise exceptions.SendfileNotAvailableError("os.sendfile call failed") from error
            if done == 0:
                break
            sent += done
            if count is None or sent < count:
                await writable()
        return sent
    finally:
        if not getattr(file, "closed", False):
            file.seek(offset + sent)  # also if nothing was left to send, as newer asyncio has it
