"""getaddrinfo() and getnameinfo() of EventLoop: numbers at once, names in a thread.

What needs no resolver is answered by the same socket functions without a thread: literal addresses
with numeric ports. Everything else goes the interpreter's own way through the executor, as does
everything while socket's function is patched since our import, and getaddrinfo() in debug mode,
where the interpreter's own logs it.
"""

from __future__ import annotations

import socket
from asyncio import base_events
from typing import Any

_base: Any = base_events.BaseEventLoop
_getaddrinfo = socket.getaddrinfo
_getnameinfo = socket.getnameinfo
# Flags with which nothing is looked up for a literal (AI_ADDRCONFIG asks for the interfaces).
_QUIET_FLAGS = (
    socket.AI_PASSIVE | socket.AI_NUMERICHOST | socket.AI_NUMERICSERV | socket.AI_CANONNAME
)
_NUMERIC_NAMES = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV


class ResolveMixin:
    """The part of EventLoop that resolves names and addresses."""

    async def getaddrinfo(
        self: Any,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """socket.getaddrinfo() without blocking the loop."""
        if (
            not self._debug
            and socket.getaddrinfo is _getaddrinfo
            and _is_literal(host)
            and _is_number(port)
            and isinstance(flags, int)
            and not flags & ~_QUIET_FLAGS
        ):
            self._check_closed()
            return _getaddrinfo(host, port, family, type, proto, flags)
        return await _base.getaddrinfo(
            self, host, port, family=family, type=type, proto=proto, flags=flags
        )

    async def getnameinfo(self: Any, sockaddr: Any, flags: int = 0) -> Any:
        """socket.getnameinfo() without blocking the loop."""
        if (
            socket.getnameinfo is _getnameinfo
            and isinstance(flags, int)
            and flags & _NUMERIC_NAMES == _NUMERIC_NAMES
            and isinstance(sockaddr, tuple)
            and sockaddr
            and _is_literal(sockaddr[0])
        ):
            self._check_closed()
            return _getnameinfo(sockaddr, flags)
        return await _base.getnameinfo(self, sockaddr, flags)


def _is_literal(host: Any) -> bool:
    """Whether the whole of it is an IPv4 or IPv6 address; a zone ('%') asks for interfaces."""
    if isinstance(host, bytes):
        try:
            host = host.decode("ascii")
        except UnicodeDecodeError:
            return False
    if not isinstance(host, str) or not host.isascii():
        return False
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):  # ValueError: an embedded null character
            continue
        return True
    return False


def _is_number(port: Any) -> bool:
    """Whether it is looked up in no list of services."""
    if isinstance(port, (str, bytes)):
        return port.isdigit() and port.isascii()
    return port is None or isinstance(port, int)
