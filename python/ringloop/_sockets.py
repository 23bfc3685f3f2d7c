"""sock_* of EventLoop: awaitables on the ring (python/native/sockets.cpp), and what of them is
left to Python: connecting."""

from __future__ import annotations

import errno
import socket
from asyncio import base_events, tasks
from typing import Any

from . import _native


_base: Any = base_events  # its private names are not typed
_BACKLOG_DELAY_MIN_S = 0.001
_BACKLOG_DELAY_MAX_S = 0.05


class SocketMixin(_native.SocketMethods):
    """sock_connect; the others are native methods of the base."""

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connects `sock`; a host name is resolved first."""
        loop: Any = self
        _base._check_ssl_socket(sock)
        if loop.get_debug() and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            found = await loop._ensure_resolved(
                address, family=sock.family, type=sock.type, proto=sock.proto, loop=loop
            )
            address = found[0][4]
        # connect_ex: 0, or a number that says that the connection is under way.
        code = _connect(sock, address)
        delay_s = _BACKLOG_DELAY_MIN_S
        while code == errno.EAGAIN and sock.family == socket.AF_UNIX:
            # The listener's backlog is full. Nothing is under way, and a poll says "writable".
            await tasks.sleep(delay_s)
            delay_s = min(2 * delay_s, _BACKLOG_DELAY_MAX_S)
            code = _connect(sock, address)
        while code in (errno.EINPROGRESS, errno.EALREADY, errno.EINTR):
            await loop._sock_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code not in (0, errno.EISCONN):
            raise OSError(code, f"Connect call failed {address}")


def _connect(sock: socket.socket, address: Any) -> int:
    try:
        return sock.connect_ex(address)
    except OSError as error:  # the kernel was not asked: "AF_UNIX path too long"
        if error.errno is not None:
            raise
        raise OSError(f"{error}: {address!r}") from None
