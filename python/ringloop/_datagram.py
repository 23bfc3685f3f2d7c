"""Datagram endpoints of EventLoop: the hook that CPython's own create_datagram_endpoint() calls.

Everything here runs once per endpoint, on the loop's thread; what runs per datagram is native
(python/native/datagram.hpp). The transport owns the socket from here on; on an exception it stays
the caller's.
"""

from __future__ import annotations

import socket
from asyncio import trsock
from typing import Any

from . import _native


class DatagramMixin:
    """The part of EventLoop that makes datagram transports."""

    def _make_datagram_transport(
        self: Any,
        sock: socket.socket,
        protocol: Any,
        address: Any = None,
        waiter: Any = None,
        extra: dict[str, Any] | None = None,
    ) -> Any:
        known = dict(extra or ())
        known["socket"] = trsock.TransportSocket(sock)
        known["sockname"] = _ask(sock.getsockname)
        known.setdefault("peername", _ask(sock.getpeername))
        return _native.datagram_transport(self, sock, protocol, address, waiter, known)


def _ask(what: Any) -> Any:
    try:
        return what()
    except OSError:  # no name, no peer
        return None
