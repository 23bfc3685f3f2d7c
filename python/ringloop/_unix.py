"""Unix stream sockets of EventLoop: create_unix_connection() and create_unix_server().

The running CPython's keywords and messages, in a form of our own: nothing stays open when a call
fails or is cancelled, errors name the address, and a server removes the path that it bound and no
other. Thread: the loop's.
"""

from __future__ import annotations

import errno
import inspect
import logging
import os
import socket
import stat
import sys
from asyncio import base_events, tasks, unix_events
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger("asyncio")
_stock: Any = unix_events.SelectorEventLoop
_CLEANS_UP = sys.version_info >= (3, 13)  # asyncio removes a closed server's path from there on

_Identity = tuple[str | bytes, int, int]  # path, and device and inode of what was bound there


class UnixMixin:
    """The part of EventLoop that makes Unix stream connections and servers."""

    async def create_unix_connection(
        self: Any,
        protocol_factory: Callable[[], Any],
        path: Any = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> tuple[Any, Any]:
        """Connects to the Unix stream socket at `path`, or takes the connected `sock`.

        Returns (transport, protocol). Cancelled or failed, it closes the socket that it made.
        """
        assert server_hostname is None or isinstance(server_hostname, str)
        if ssl and server_hostname is None:
            raise ValueError("you have to pass server_hostname when using ssl")
        if not ssl and server_hostname is not None:
            raise ValueError("server_hostname is only meaningful with ssl")
        _check_timeouts(ssl, ssl_handshake_timeout, ssl_shutdown_timeout)
        own = _own_socket(path, sock, "no path and sock were specified")
        if own is None:
            assert sock is not None
            _check_kind(sock)
            own = sock
        try:
            own.setblocking(False)
            if sock is None:
                await self.sock_connect(own, os.fspath(path))
            made: tuple[Any, Any] = await self._create_connection_transport(
                own,
                protocol_factory,
                ssl,
                server_hostname,
                ssl_handshake_timeout=ssl_handshake_timeout,
                ssl_shutdown_timeout=ssl_shutdown_timeout,
            )
        except BaseException:
            if sock is None and not _is_taken(self, own):
                own.close()
            raise
        return made

    async def create_unix_server(
        self: Any,
        protocol_factory: Callable[[], Any],
        path: Any = None,
        *,
        sock: socket.socket | None = None,
        backlog: int = 100,
        ssl: Any = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
        cleanup_socket: bool = _CLEANS_UP,
    ) -> base_events.Server:
        """A server on the Unix socket at `path` (an abstract name begins with a null), or on the
        bound `sock`.

        A socket that is in the way at `path` is removed first. With cleanup_socket the path goes
        when the server closes, unless somebody else has taken it.
        """
        if isinstance(ssl, bool):
            raise TypeError("ssl argument must be an SSLContext or None")
        _check_timeouts(ssl, ssl_handshake_timeout, ssl_shutdown_timeout)
        own = _own_socket(path, sock, "path was not specified, and no sock specified")
        if own is None:
            assert sock is not None
            _check_kind(sock)
            own = sock
        server = None
        try:
            if sock is None:
                _bind(own, os.fspath(path))
            own.setblocking(False)
            if cleanup_socket:
                self._remember_unix_path(own)
            server_type: Any = base_events.Server
            server = server_type(
                self,
                [own],
                protocol_factory,
                ssl,
                backlog,
                ssl_handshake_timeout,
                ssl_shutdown_timeout,
            )
            if start_serving:
                server._start_serving()
                await tasks.sleep(0)
        except BaseException:
            if server is not None:
                server.close()
            elif sock is None:
                own.close()
            raise
        made: base_events.Server = server
        return made

    # ---- for EventLoop

    def _remember_unix_path(self: Any, sock: socket.socket) -> None:
        path = sock.getsockname()
        if not _is_path(path):
            return
        path = os.path.abspath(path)  # the folder that it is relative to may be left
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        paths: dict[socket.socket, _Identity] = self.__dict__.setdefault("_unix_server_sockets", {})
        paths[sock] = (path, found.st_dev, found.st_ino)

    def _remove_unix_path(self: Any, sock: socket.socket) -> None:
        """Removes what `sock` was bound to, if it is still there.

        Before the socket is closed: until then no other file can have its inode's number.
        """
        entry = self.__dict__.get("_unix_server_sockets", {}).pop(sock, None)
        if entry is None:
            return
        path, device, inode = entry
        try:
            found = os.lstat(path)
            if (found.st_dev, found.st_ino) == (device, inode):
                os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.error("Unable to clean up listening UNIX socket %r: %r", path, error)


# Programs look at the keywords of the interpreter that they run on.
for _name in ("create_unix_connection", "create_unix_server"):
    _method: Any = getattr(UnixMixin, _name)
    _method.__signature__ = inspect.signature(getattr(_stock, _name))


def _check_timeouts(ssl: Any, handshake: float | None, shutdown: float | None) -> None:
    if handshake is not None and not ssl:
        raise ValueError("ssl_handshake_timeout is only meaningful with ssl")
    if shutdown is not None and not ssl:
        raise ValueError("ssl_shutdown_timeout is only meaningful with ssl")


def _own_socket(path: Any, sock: socket.socket | None, neither: str) -> socket.socket | None:
    """A new socket for `path`; None where the caller has brought one."""
    if path is None:
        if sock is None:
            raise ValueError(neither)
        return None
    if sock is not None:
        raise ValueError("path and sock can not be specified at the same time")
    os.fspath(path)  # TypeError for what is no path
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def _is_taken(loop: Any, sock: socket.socket) -> bool:
    """Whether a transport owns it, and will close it."""
    if sock.fileno() < 0:  # closed, or detached
        return False
    try:
        loop.remove_reader(sock)
    except RuntimeError:  # how the loop guards the descriptors of its transports
        return True
    return False


def _check_kind(sock: socket.socket) -> None:
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        raise ValueError(f"A UNIX Domain Stream Socket was expected, got {sock!r}")


def _is_path(name: str | bytes) -> bool:
    """Whether it is in the file system: not abstract, not unnamed."""
    return name[:1] not in ("", b"", "\0", b"\0")


def _bind(sock: socket.socket, path: str | bytes) -> None:
    if _is_path(path):
        _remove_stale(path)
    try:
        sock.bind(path)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(error.errno, f"Address {path!r} is already in use") from None
        if error.errno is None:  # "AF_UNIX path too long"
            raise OSError(f"{error}: {path!r}") from None
        raise OSError(error.errno, os.strerror(error.errno), path) from None


def _remove_stale(path: str | bytes) -> None:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)
    except FileNotFoundError:
        return
    except OSError as error:  # the folder may be one that allows making a socket only
        _logger.error("Unable to check or remove stale UNIX socket %r: %r", path, error)
