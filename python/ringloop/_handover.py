"""Descriptors that change their owner: from a transport to a socket and back, to another loop, to
another process.

At any time a descriptor has one owner here. detach() ends a transport without closing: nothing of
the kernel's has the socket any more when it returns. attach() makes a transport, on whichever loop
it is awaited. send_handle() and recv_handle() pass a descriptor over a Unix socket, and close the
sender's.

A descriptor that one of the loops still has is refused with FdConflictError. Thread: the loop's.
"""

from __future__ import annotations

import array
import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

from . import _native, _owners
from ._owned import OwnedFd, check_open
from .loop import EventLoop

_FD_BYTES = array.array("i").itemsize


# ---- a transport gives its socket up, a socket gets a transport

async def detach(transport: Any) -> tuple[socket.socket, bytes]:
    """Ends a transport without closing its connection: (socket, what nobody has read yet).

    transport: ringloop's, of a TCP or Unix stream (or a StreamWriter over it), of the running loop.
    Waits until what was written is with the kernel; meanwhile nothing is read and write() is
    refused. Then the socket is the caller's alone, nothing is in flight on it, and the protocol
    gets connection_lost(None), in the turn that follows.
    The bytes were received while reading was paused, or lie in the StreamReader: give them to
    attach(). What a protocol was given is its own business.
    Cancel: the transport goes on as before. RuntimeError if it is closing or sends a file, the
    socket's error if the connection is lost meanwhile; TypeError for TLS, whose keys stay with it.
    """
    found = _native_transport(transport)
    loop = found._loop
    if loop is not None and loop is not asyncio.get_running_loop():
        raise RuntimeError(f"detach() must be awaited on the transport's own loop, {loop!r}")
    parts = None if found.get_write_buffer_size() else found._detach()
    if parts is None:
        parts = await _detach_later(found)
    sock, held = parts
    return sock, b"".join((_unread(found), *held))


async def attach(
    sock: Any, protocol_factory: Callable[[], Any], received: bytes = b""
) -> tuple[asyncio.Transport, Any]:
    """A transport of the running loop over a connected stream socket: (transport, protocol).

    sock: a socket, or an OwnedFd of one; the transport's from here on. The protocol's
    connection_made() has run; what it gets first is `received`, and what a cancelled sock_recv()
    left. Never suspends.
    FdConflictError if somebody has the descriptor, in any loop of this process. Whatever is raised
    before connection_made() leaves the socket the caller's; if that raises, the connection is
    closed.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, EventLoop):
        raise RuntimeError(
            f"attach() makes transports of ringloop's loop, and this one is {loop!r}: there use "
            "loop.connect_accepted_socket()"
        )
    fd = _owners.check_giver(sock, "attach()")
    own = socket.socket(fileno=fd) if isinstance(sock, OwnedFd) else sock
    try:
        _check_socket(own)
        if own.gettimeout() != 0:
            own.setblocking(False)
        protocol = protocol_factory()
        transport = _native.attach_transport(loop, own, protocol)
    except BaseException:
        if own is not sock:
            own.detach()
        raise
    if own is not sock:
        sock.detach()
    transport._begin(bytes(received))
    return transport, protocol


def _native_transport(given: Any) -> Any:
    found = given.transport if isinstance(given, asyncio.StreamWriter) else given
    if isinstance(found, _native.SocketTransport):
        return found
    if getattr(found, "get_extra_info", lambda _: None)("sslcontext") is not None:
        raise TypeError(f"{found!r} cannot be detached: TLS's keys stay in this process")
    raise TypeError(f"detach() takes a stream transport of ringloop's loop, not {given!r}")


async def _detach_later(transport: Any) -> Any:
    was_paused = transport._paused
    try:
        if not transport.is_closing():
            await _written(transport)
        while (parts := transport._detach()) is None:  # inside a callback of this very connection
            await asyncio.sleep(0)
        return parts
    except BaseException:
        if not was_paused:
            transport.resume_reading()
        raise


async def _written(transport: Any) -> None:
    transport.pause_reading()
    try:
        written = transport._make_empty_waiter()
    except RuntimeError as error:
        raise RuntimeError(
            f"{transport!r} cannot be detached: a sendfile() or another detach() is under way"
        ) from error
    try:
        await written
    finally:
        transport._reset_empty_waiter()


def _unread(transport: Any) -> bytes:
    """What lies in a StreamReader, taken out of it."""
    reader = getattr(transport.get_protocol(), "_stream_reader", None)
    if not isinstance(reader, asyncio.StreamReader):
        return b""
    buffer: bytearray = reader._buffer  # type: ignore[attr-defined]
    found = bytes(buffer)
    buffer.clear()
    return found


def _check_socket(sock: Any) -> None:
    if isinstance(sock, ssl.SSLSocket):
        raise TypeError("attach() takes no SSLSocket: its keys and its records stay with it")
    if not isinstance(sock, socket.socket):
        raise TypeError(f"attach() takes a socket or an OwnedFd, not {sock!r}")


# ---- to another process

async def send_handle(channel: socket.socket, fd: Any, *, keep: bool = False) -> None:
    """Hands an open descriptor over, to whoever does recv_handle() at the other end of `channel`.

    channel: a connected Unix socket, non-blocking. fd: an int, a socket, an OwnedFd or what else
    has a fileno() and a close(). When this returns it is on its way, and closed here; `keep` leaves
    it open, so that both have it. Works under any asyncio loop. What travels is one byte with the
    descriptor, as multiprocessing.reduction and socket.recv_fds() have it, so that a message of the
    program's own may follow.
    Cancelled or failed, nothing was sent and it stays the caller's. OSError for a descriptor that
    is not open and for a channel that has lost its peer; FdConflictError if a loop of this process
    has the descriptor: detach() first.
    """
    while True:
        _check_channel(channel, "send_handle()")
        check_open(_owners.number_of(fd))
        number = _owners.check_giver(fd, "send_handle()")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [number]))]
        try:
            channel.sendmsg([b"\x01"], rights, socket.MSG_NOSIGNAL)
            break
        except (BlockingIOError, InterruptedError):
            await _native.socket_ready(channel, True)
    if not keep:
        os.close(fd) if isinstance(fd, int) else fd.close()


async def recv_handle(channel: socket.socket) -> OwnedFd:
    """The next descriptor that is sent over `channel`, a connected Unix socket, non-blocking.

    It is close-on-exec, and the OwnedFd's: detach() it into a socket or a file, or attach() it.
    Works under any asyncio loop, and takes what send_handle(), socket.send_fds() and
    multiprocessing.reduction send, one descriptor a message.
    Cancel takes nothing from the channel. EOFError when the other end is closed; OSError when a
    message has no descriptor, or more than one, or this process may open no more (it is lost then).
    """
    while True:
        _check_channel(channel, "recv_handle()")
        try:
            data, control, flags, _ = channel.recvmsg(
                1, socket.CMSG_LEN(_FD_BYTES), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            await _native.socket_ready(channel, False)
        else:
            return _received(data, control, flags)


def _check_channel(channel: Any, wanted_by: str) -> None:
    if not isinstance(channel, socket.socket) or channel.family != socket.AF_UNIX:
        raise TypeError(f"descriptors travel over a Unix socket, not {channel!r}")
    if channel.gettimeout() != 0:
        raise ValueError("the channel must be non-blocking: channel.setblocking(False)")
    number = _owners.number_of(channel)
    _owners.check_free(number, wanted_by, ("transport", "datagram transport"))


def _received(data: bytes, control: list[tuple[int, int, bytes]], flags: int) -> OwnedFd:
    found = array.array("i")
    for level, kind, raw in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(raw[: len(raw) // _FD_BYTES * _FD_BYTES])
    if len(found) == 1 and not flags & socket.MSG_CTRUNC:
        return OwnedFd(found[0])
    for fd in found:
        os.close(fd)
    if found:
        raise OSError(errno.EMSGSIZE, "more than one descriptor in a message: they were closed")
    if flags & socket.MSG_CTRUNC:
        raise OSError(
            errno.EMFILE, "a descriptor came and was lost: this process may open no more files"
        )
    if not data:
        raise EOFError("the other end of the channel is closed")
    raise OSError(errno.EBADMSG, f"a message without a descriptor came over the channel: {data!r}")
