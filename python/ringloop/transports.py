"""The cold half of the transports: what runs once per TLS connection.

Everything here runs on the loop's thread, called by the native listener.
"""

from __future__ import annotations

import socket
from typing import Any


def accept_tls(
    loop: Any,
    protocol_factory: Any,
    fd: int,
    sslcontext: Any,
    server: Any,
    handshake_timeout: float | None,
    shutdown_timeout: float | None,
) -> None:
    """Starts the standard library's TLS over an accepted descriptor, taken on success only."""
    conn = socket.socket(fileno=fd)
    try:
        conn.setblocking(False)
        peer = conn.getpeername()
    except OSError:  # the client is gone already
        conn.close()
        return
    task = loop.create_task(
        _shake_hands(
            loop,
            protocol_factory,
            conn,
            peer,
            sslcontext,
            server,
            handshake_timeout,
            shutdown_timeout,
        )
    )
    task.add_done_callback(_report)
    _handshakes.add(task)


_handshakes: set[Any] = set()  # a loop keeps weak references to its tasks only


async def _shake_hands(
    loop: Any,
    protocol_factory: Any,
    conn: socket.socket,
    peer: Any,
    sslcontext: Any,
    server: Any,
    handshake_timeout: float | None,
    shutdown_timeout: float | None,
) -> None:
    transport = None
    try:
        waiter = loop.create_future()
        transport = loop._make_ssl_transport(
            conn,
            protocol_factory(),
            sslcontext,
            waiter,
            server_side=True,
            extra={"peername": peer},
            server=server,
            ssl_handshake_timeout=handshake_timeout,
            ssl_shutdown_timeout=shutdown_timeout,
        )
        await waiter
    except BaseException:
        if transport is not None:
            transport.close()
        else:
            conn.close()
        raise


def _report(task: Any) -> None:
    """As asyncio: a failed handshake is told in debug mode only.

    SSLProtocol has reported what is a fault of ours.
    """
    _handshakes.discard(task)
    if task.cancelled():
        return
    exception = task.exception()
    loop = task.get_loop()
    if exception is not None and loop.get_debug():
        loop.call_exception_handler(
            {
                "message": "Error on transport creation for incoming connection",
                "exception": exception,
            }
        )
