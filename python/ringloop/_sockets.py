"""sock_* of EventLoop: awaitables on the ring (python/native/sockets.cpp), and the argument rules of asyncio around them."""

from __future__ import annotations


class SocketMixin:
    """Placeholder until the native socket operations are wired in."""
