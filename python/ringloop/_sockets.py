"""sock_* of EventLoop: awaitables on the ring (python/native/sockets.cpp), and what of them is
left to Python: connecting."""

from __future__ import annotations

import errno
import socket
from asyncio import base_events
from typing import Any

from . import _native


_base: Any = base_events  # its private names are not typed


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
        code = sock.connect_ex(address)
        while code in (errno.EINPROGRESS, errno.EALREADY, errno.EINTR, errno.EAGAIN):
            await loop._sock_writable(sock)
            if code == errno.EAGAIN:  # a Unix socket's backlog was full: nothing is under way
                code = sock.connect_ex(address)
                continue
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code not in (0, errno.EISCONN):
            raise OSError(code, f"Connect call failed {address}")
