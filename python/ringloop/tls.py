"""TLS of EventLoop: CPython's own asyncio.sslproto over our transports, mended.

The handshake, the records and the state machine are the running CPython's; the data of an open
connection passes by native code (python/native/tls.hpp). What is changed here is what its later
versions changed as well, or what it leaves open: a close ends within its timeout and drops what
still comes, a failed handshake leaves no reference cycle and tells its waiter and its peer why,
start_tls() keeps what had been read ahead, a stream that is cut inside a record is no clean end,
and an idle connection holds no buffer of its own.

Everything runs on the loop's thread. A SSLProtocol lives as long as the transport below it, or its
own transport, is referenced; both let go of each other in connection_lost(). Cancelling a handshake
aborts its connection. Errors: the handshake's go to whoever awaits it, later ones to the protocol's
connection_lost().
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import traceback
from asyncio import base_events, constants, sslproto, streams
from collections.abc import Callable, Iterable
from typing import Any

from . import _native

try:
    import ssl
except ImportError:  # an interpreter without OpenSSL: sslproto refuses in words
    ssl = None  # type: ignore[assignment]

_State: Any = sslproto.SSLProtocolState
_AppState: Any = sslproto.AppProtocolState
# Private names, which typeshed has in part only.
_base: Any = base_events.BaseEventLoop
_StockTransport: Any = sslproto._SSLProtocolTransport
_StockProtocol: Any = sslproto.SSLProtocol

_READ_BUFFER_BYTES = 256 * 1024
# After our close_notify a peer may send what it had under way; one that goes on is cut off.
_DROPPED_BYTES_MAX = 1024 * 1024

_SERVER_TAKES_TRANSPORT = hasattr(base_events.Server, "close_clients")  # CPython 3.13


class SSLTransport(_native.TlsTransport, _StockTransport):  # type: ignore[misc]  # the base is Any
    """What a protocol over TLS gets in connection_made(): asyncio's transport with its later fixes.

    write() sends what a mutable buffer holds at the call; close() may be called again.
    """

    _closed: bool

    def is_closing(self) -> bool:
        """Whether this transport is closing, or the one below it."""
        below = self._ssl_protocol._transport
        return self._closed or (below is not None and below.is_closing())

    def close(self) -> None:
        """Sends what was written and TLS's own end, waits for the peer's at most
        ssl_shutdown_timeout; what still arrives is dropped."""
        if self._loop._debug:
            _native.check_thread(self._loop, "transport.close()")
        # The stock one forgets its protocol, and all extra info, at the second call.
        if not self._closed:
            self._closed = True
            self._ssl_protocol._start_shutdown()

    def _write_slowly(self, data: bytes | bytearray | memoryview) -> None:
        """What the native write() leaves: other kinds of data, and all while something waits."""
        if isinstance(data, (bytearray, memoryview)):
            data = bytes(data)
        _StockTransport.write(self, data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Sends several pieces of data, as one."""
        if self._loop._debug:
            _native.check_thread(self._loop, "transport.writelines()")
        # A view may have gaps or wide items.
        pieces = [bytes(each) if isinstance(each, memoryview) else each for each in list_of_data]
        data = b"".join(pieces)
        if data:
            self.write(data)


class SSLProtocol(_native.TlsProtocol, _StockProtocol):  # type: ignore[misc]  # the base is Any
    """TLS between a transport below and an application's protocol above."""

    # Of the stock class, as far as it is set here.
    _app_protocol_buffer_updated: Any
    _app_protocol_get_buffer: Any
    _app_protocol_is_buffer: bool
    _app_state: Any
    _app_transport: Any
    _app_transport_created: bool
    _handshake_timeout_handle: Any
    _shutdown_timeout_handle: Any
    _ssl_reading_paused: bool
    _waiter: Any

    def __init__(self, loop: Any, *arguments: Any, **options: Any) -> None:
        self._membership: Any = (None, ())  # the server, what it knows us by
        self._below: Any = None  # the transport below, kept when it is lost for what it knows
        self._before_made = options.get("call_connection_made", True)  # still to come
        self._closed = False  # no more data is for the application
        self._finished = False  # the other side's end has come: only our bytes are left to go
        self._dropped_bytes = 0
        # The stock class gives every connection a buffer of this size; ours share the loop's.
        self.max_size = 0
        super().__init__(loop, *arguments, **options)
        self.max_size = _READ_BUFFER_BYTES
        self._ssl_buffer = loop._tls_read_buffer()
        self._ssl_buffer_view = memoryview(self._ssl_buffer)

    def _get_app_transport(self) -> Any:
        if self._app_transport is None and not self._app_transport_created:
            self._app_transport = SSLTransport(self._loop, self)
            self._app_transport_created = True
        return super()._get_app_transport()

    # ---- what belongs to whom

    def attach(self, server: Any) -> None:
        """Makes this a connection of `server` (or of none), until it is lost."""
        if server is not None:
            member = (self._app_transport,) if _SERVER_TAKES_TRANSPORT else ()
            server._attach(*member)
            self._membership = (server, member)

    def detach(self) -> None:
        """Leaves the server."""
        server, member = self._membership
        self._membership = (None, ())
        if server is not None:
            server._detach(*member)

    def give_up(self) -> None:
        """For one that nobody will use."""
        if self._app_transport is not None:
            self._app_transport._closed = True  # else it warns that nobody closed it
        self.detach()

    def _set_app_protocol(self, app_protocol: Any) -> None:
        super()._set_app_protocol(app_protocol)
        if not hasattr(app_protocol, "data_received") and hasattr(app_protocol, "get_buffer"):
            # A buffered protocol by its shape, as our other transports take it.
            self._app_protocol_get_buffer = app_protocol.get_buffer
            self._app_protocol_buffer_updated = app_protocol.buffer_updated
            self._app_protocol_is_buffer = True
        self._join_stream(self._before_made)

    def _get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in self._extra or self._transport is not None or self._below is None:
            return super()._get_extra_info(name, default)
        return self._below.get_extra_info(name, default)

    # ---- the transport below: made and lost

    def connection_made(self, transport: Any) -> None:
        """Begins the handshake."""
        if not isinstance(transport, (_native.SocketTransport, _StockTransport)):
            # It may keep the buffer for longer than a call.
            self._ssl_buffer = bytearray(_READ_BUFFER_BYTES)
            self._ssl_buffer_view = memoryview(self._ssl_buffer)
        self._ssl_writing_paused = bool(getattr(transport, "_protocol_paused", False))
        if self._closed:  # before it began
            self._transport = transport
            transport.abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tells the application, or whoever waits for the handshake."""
        self._closed = True
        self._below = self._transport
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(
                exc or ConnectionAbortedError("the connection was closed during the TLS handshake")
            )
        del waiter  # the exception's traceback leads here
        told = self._app_state in (_AppState.STATE_CON_MADE, _AppState.STATE_EOF)
        protocol = self._app_protocol
        self._app_state = _AppState.STATE_CON_LOST
        super().connection_lost(exc)
        self._incoming.read()
        # Bound methods of a protocol that most likely holds our transport.
        self._app_protocol_get_buffer = self._app_protocol_buffer_updated = None
        try:
            # At once, where the stock class takes another turn: the server that waits for its
            # connections, and a loop that is closed next, find everything done.
            if told:
                protocol.connection_lost(exc)
        finally:
            self.detach()

    def _abort(self, exc: BaseException | None = None) -> None:
        self._closed = True
        self._set_state(_State.UNWRAPPED)
        if self._transport is None:
            return
        if exc is None:
            self._transport.abort()
        else:
            self._transport._force_close(exc)

    # ---- incoming bytes

    def _set_state(self, new_state: Any) -> None:
        super()._set_state(new_state)
        self._open = self._sslobj._sslobj if new_state == _State.WRAPPED else None

    def _on_bytes(self) -> None:
        """Bytes have come in, and are not simply for the application."""
        if self._state == _State.DO_HANDSHAKE:
            self._do_handshake()
        elif self._state == _State.WRAPPED:
            self._do_read()
        elif self._state == _State.FLUSHING:
            self._do_flush()
        elif self._state == _State.SHUTDOWN:
            self._do_shutdown()

    def _after_read(self) -> None:
        """What the application's answer to data, or the peer's end, has left to be sent."""
        if self._write_backlog:
            self._do_write()
        elif self._transport is not None:
            self._process_outgoing()
        self._control_ssl_reading()

    def eof_received(self) -> bool | None:
        """The stream below has ended: True while something of it waits for the application, or
        something of the application's for the peer."""
        keep_open = super().eof_received()
        if self._state == _State.FLUSHING:
            return True
        return keep_open or (self._finished and self._outgoing.pending > 0)

    def _do_read__copied(self) -> None:
        chunks: list[bytes] = []
        ended = False
        try:
            while not ended:
                chunk = self._sslobj.read(self.max_size)
                if chunk:
                    chunks.append(chunk)
                else:
                    ended = True
        except ssl.SSLWantReadError:
            pass  # all that is there was read
        finally:
            # Also in front of a record that is none: what was read before it is genuine.
            if chunks:
                self._deliver(b"".join(chunks) if chunks[1:] else chunks[0])
        if ended:
            self._peer_closed()

    def _do_read__buffered(self) -> None:
        # All that fits into several buffers, where the stock one leaves the rest to a later turn:
        # the end of the stream may come before it.
        while not self._app_reading_paused and self._state in (_State.WRAPPED, _State.FLUSHING):
            size, more = self._fill_buffer()
            if size:
                self._app_protocol_buffer_updated(size)
            if more is None:
                self._peer_closed()
            if not more:
                return

    def _fill_buffer(self) -> tuple[int, bool | None]:
        """(bytes read, whether there may be more, None at the end)."""
        size = 0
        buffer = self._app_protocol_get_buffer(self._get_read_buffer_size())
        # Views of a view: slices of a bytearray would be copies. All are gone when the application
        # is told, which may resize its buffer then.
        with memoryview(buffer) as whole, whole.cast("B") as view:
            if not view:
                raise RuntimeError("get_buffer() returned an empty buffer")
            try:
                while size < len(view):
                    with view[size:] as rest:
                        count = self._sslobj.read(len(rest), rest)
                    if count == 0:
                        return size, None
                    size += count
            except ssl.SSLWantReadError:
                return size, False
        return size, True

    def _peer_closed(self) -> None:
        self._call_eof_received()
        self._start_shutdown()

    # ---- handshake

    def _on_handshake_complete(self, handshake_exc: Any) -> None:
        if handshake_exc is None:
            # Our last message, else left until the next read: never, if the protocol pauses.
            self._process_outgoing()
            super()._on_handshake_complete(None)
            self._before_made = False
            return
        if isinstance(handshake_exc, type):
            handshake_exc = ConnectionResetError("the peer closed during the TLS handshake")
        if self._handshake_timeout_handle is not None:
            self._handshake_timeout_handle.cancel()
            self._handshake_timeout_handle = None
        self._process_outgoing()  # the alert that says what was wrong
        self._set_state(_State.UNWRAPPED)
        message = "SSL handshake failed"
        if isinstance(handshake_exc, ssl.CertificateError):
            message = "SSL handshake failed on verifying the certificate"
        # Not raised on the way, as in the stock one: its frame would hold what holds the exception.
        self._fatal_error(handshake_exc, message)
        self._wakeup_waiter(handshake_exc)

    # ---- shutdown

    def _start_shutdown(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._app_transport is not None:
            self._app_transport._closed = True
        if self._state == _State.DO_HANDSHAKE:
            self._abort(None)
        elif self._state in (_State.WRAPPED, _State.FLUSHING):
            # FLUSHING: the stream below has ended, and the application closes instead of reading on
            if self._state == _State.WRAPPED:
                self._set_state(_State.FLUSHING)
            self._limit_shutdown()
            self._do_flush()

    def _limit_shutdown(self) -> None:
        if self._shutdown_timeout_handle is None:
            self._shutdown_timeout_handle = self._loop.call_later(
                self._ssl_shutdown_timeout, self._check_shutdown_timeout
            )

    def _do_flush(self) -> None:
        if not self._closed:  # the peer's bytes ended: what came before belongs to the application
            self._do_read()
            if self._app_reading_paused and (self._incoming.pending or self._sslobj.pending()):
                return
        elif self._write_backlog:
            try:
                self._do_write()
            except Exception as error:
                self._fatal_error(error, "Fatal error on SSL protocol")
                return
        if self._state == _State.FLUSHING:
            self._set_state(_State.SHUTDOWN)
            self._do_shutdown()

    def _do_shutdown(self) -> None:
        if self._finished:
            self._incoming.read()  # what comes behind the peer's end is nothing
        elif self._eof_received:
            if not self._closed and self._inside_record:
                self._on_shutdown_complete(
                    ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the stream was cut inside a TLS record")
                )
                return
            self._process_outgoing()
            self._call_eof_received()
            self._on_shutdown_complete(None)
        else:
            self._exchange_ends()

    def _exchange_ends(self) -> None:
        try:
            self._drop_incoming()
            self._sslobj.unwrap()
        except ssl.SSLWantReadError:
            self._process_outgoing()
            if self._dropped_bytes > _DROPPED_BYTES_MAX:
                self._abort(None)
            elif self._ssl_reading_paused:  # else the peer's end would not come in
                self._ssl_reading_paused = False
                self._transport.resume_reading()
        except ssl.SSLError as error:
            self._on_shutdown_complete(error)
        else:
            self._process_outgoing()
            self._call_eof_received()
            self._on_shutdown_complete(None)

    def _drop_incoming(self) -> None:
        view = self._ssl_buffer_view  # what was in it is in _incoming
        try:
            while count := self._sslobj.read(len(view), view):
                self._dropped_bytes += count
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # nothing is left; unwrap() tells the two apart

    def _on_shutdown_complete(self, shutdown_exc: BaseException | None) -> None:
        if shutdown_exc is not None:
            self._fatal_error(shutdown_exc)
        elif not self._finished:
            self._finished = True
            self._limit_shutdown()  # the peer may not read: connection_lost() ends it
            self._close_below()

    def _close_below(self) -> None:
        # What a transport is given once it is closing may be dropped.
        if self._outgoing.pending == 0:
            self._loop.call_soon(self._transport.close)

    # ---- flow control from below

    def pause_writing(self) -> None:
        """The transport below has enough."""
        self._ssl_writing_paused = True  # no assertion: start_tls() may have come in between

    def resume_writing(self) -> None:
        """The transport below takes more."""
        self._ssl_writing_paused = False
        if self._transport is not None:
            self._process_outgoing()
            if self._finished:
                self._close_below()


def _reader_of(protocol: Any) -> Any:
    if isinstance(protocol, streams.StreamReaderProtocol):
        return protocol._stream_reader  # type: ignore[attr-defined]
    return None


_CONNECT_CODE = _base._create_connection_transport.__code__


def _tidy_failed_connection(error: BaseException, sock: socket.socket) -> None:
    """As CPython 3.15: a socket that no transport took is closed, and the frame of the failed call,
    which the traceback keeps, does not hold the waiter, which holds the exception."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is _CONNECT_CODE:
            if "transport" not in frame.f_locals:
                sock.close()
            frame.clear()
            len(frame.f_locals)  # up to CPython 3.12 a dict of the frame's: looking empties it


class TlsMixin:
    """The part of EventLoop that makes TLS connections."""

    _tls_buffer: bytearray | None = None
    _handshakes: set[Any] | None = None

    def _tls_read_buffer(self) -> bytearray:
        """Encrypted bytes pass through it within one call: all connections share it."""
        if self._tls_buffer is None:
            self._tls_buffer = bytearray(_READ_BUFFER_BYTES)
        return self._tls_buffer

    def _keep_handshake(self, task: Any) -> None:
        # A loop has weak references to its tasks only.
        if self._handshakes is None:
            self._handshakes = set()
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def _make_ssl_transport(
        self,
        rawsock: socket.socket,
        protocol: Any,
        sslcontext: Any,
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        ssl_handshake_timeout: float | None = constants.SSL_HANDSHAKE_TIMEOUT,
        ssl_shutdown_timeout: float | None = constants.SSL_SHUTDOWN_TIMEOUT,
        **_: Any,  # CPython 3.14.1: context=
    ) -> Any:
        loop: Any = self
        tls = SSLProtocol(
            loop,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        try:
            # Not the transport below: a server's close_clients() is to end TLS properly.
            tls.attach(server)
            loop._make_socket_transport(rawsock, tls, extra=extra)
        except BaseException:
            tls.give_up()
            raise
        return tls._app_transport

    async def _create_connection_transport(
        self, sock: socket.socket, *arguments: Any, **options: Any
    ) -> Any:
        base: Any = super()
        try:
            return await base._create_connection_transport(sock, *arguments, **options)
        except BaseException as error:
            _tidy_failed_connection(error, sock)
            raise

    async def start_tls(
        self,
        transport: Any,
        protocol: Any,
        sslcontext: Any,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Any:
        """Upgrades a connection to TLS; the transport that `protocol` is to use from here on.

        Bytes that a StreamReader has read ahead, or that the transport holds since reading was
        paused, are taken for the peer's part of the handshake. So whatever somebody put behind the
        plain-text reply to a STARTTLS ends in ssl.SSLError, and is never read as if it had come
        through TLS. A protocol with a buffer of its own must see to that itself.
        """
        loop: Any = self
        if ssl is None:
            raise RuntimeError("Python's ssl module is not available")
        if not isinstance(sslcontext, ssl.SSLContext):
            raise TypeError(f"sslcontext must be an ssl.SSLContext, got {sslcontext!r}")
        if not getattr(transport, "_start_tls_compatible", False):
            raise TypeError(f"the transport {transport!r} is not supported by start_tls()")
        if transport.is_closing():
            raise ConnectionAbortedError("start_tls() on a connection that is closing")
        waiter = loop.create_future()
        tls = SSLProtocol(
            loop,
            protocol,
            sslcontext,
            waiter,
            server_side,
            server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
            call_connection_made=False,
        )
        begun = loop.call_soon(_begin_tls(transport, protocol, tls), transport)
        resumed = loop.call_soon(transport.resume_reading)
        try:
            await waiter
        except BaseException:
            del waiter  # it holds the exception, whose traceback holds this frame
            tls.give_up()
            transport.abort()
            begun.cancel()
            resumed.cancel()
            raise
        _hand_over(transport, protocol, tls)
        return tls._app_transport


def _begin_tls(transport: Any, protocol: Any, tls: SSLProtocol) -> Callable[[Any], None]:
    """Puts `tls` between both; what is to be called with the transport to begin."""
    # Paused, nothing reaches it before it has begun.
    transport.pause_reading()
    ended = False
    reader = _reader_of(protocol)
    if reader is not None:
        ended = reader._eof
        if reader._buffer:
            tls._take(reader._buffer)
            reader._buffer.clear()
            reader._paused = False
    # Nothing is delivered before the caller has the new transport.
    tls._app_reading_paused = True
    # Whom the old transport told to pause, the new one will tell to go on.
    tls._app_writing_paused = bool(getattr(transport, "_protocol_paused", False))
    transport.set_protocol(tls)

    def begin(transport: Any) -> None:
        tls.connection_made(transport)
        if ended:
            tls.eof_received()

    return begin


def _hand_over(transport: Any, protocol: Any, tls: SSLProtocol) -> None:
    """The handshake is done: `protocol` deals with the new transport from here on."""
    reader = _reader_of(protocol)
    if reader is not None and reader._transport is transport:
        reader._transport = tls._app_transport  # for its flow control
    context = _context_of(transport)
    if context is None:
        tls._resume_reading()
    else:
        context.copy().run(tls._resume_reading)  # not in that of whoever asked for TLS


def _context_of(transport: Any) -> contextvars.Context | None:
    """In which the callbacks of a connection run; None for a transport that is not ours."""
    while isinstance(transport, _StockTransport):
        transport = transport._ssl_protocol._transport
    context: contextvars.Context | None = getattr(transport, "_context", None)
    return context


# ---- connections of a server: called by the native listener in the connection's own context


def accept_tls(
    loop: Any,
    protocol_factory: Any,
    fd: int,
    sslcontext: Any,
    server: Any,
    handshake_timeout: float | None,
    shutdown_timeout: float | None,
) -> None:
    """Starts TLS over an accepted descriptor, which is taken on success only."""
    protocol = protocol_factory()
    conn = socket.socket(fileno=fd)
    try:
        conn.setblocking(False)
        if server is not None and server._sockets is None:  # closed by the factory
            conn.close()
            return
        waiter = loop.create_future()
        transport = loop._make_ssl_transport(
            conn,
            protocol,
            sslcontext,
            waiter,
            server_side=True,
            server=server,
            ssl_handshake_timeout=handshake_timeout,
            ssl_shutdown_timeout=shutdown_timeout,
        )
    except BaseException:
        conn.detach()
        raise
    try:
        task = loop.create_task(_await_handshake(loop, waiter, transport, protocol))
    except BaseException as error:  # of a task factory of the user's
        transport.abort()  # and with it the descriptor: from here on it is no longer the caller's
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            loop.call_soon(_raise, error)  # ends run_forever()
        else:
            _report(loop, error, transport, protocol)
        return
    loop._keep_handshake(task)


def _raise(error: BaseException) -> None:
    raise error


async def _await_handshake(loop: Any, waiter: Any, transport: Any, protocol: Any) -> None:
    """A task, so that the end of asyncio.run() ends handshakes that are under way."""
    try:
        await waiter
    except BaseException as error:
        del waiter  # it holds the exception, whose traceback holds this frame
        transport.abort()
        if isinstance(error, (SystemExit, KeyboardInterrupt, asyncio.CancelledError)):
            raise
        # As asyncio: a client that fails is told in debug mode only.
        if loop.get_debug():
            _report(loop, error, transport, protocol)


def _report(loop: Any, error: BaseException, transport: Any, protocol: Any) -> None:
    loop.call_exception_handler(
        {
            "message": "Error on transport creation for incoming connection",
            "exception": error,
            "transport": transport,
            "protocol": protocol,
        }
    )
