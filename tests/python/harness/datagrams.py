"""Datagram endpoints for tests: a protocol that writes down its callbacks, endpoints and peers."""
from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

LOOPBACK = ("127.0.0.1", 0)


class Recorder(asyncio.DatagramProtocol):
    """Writes down every callback, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.received: list[tuple[bytes, Any]] = []
        self.errors: list[Exception] = []
        self.transport: Any = None
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._changed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._note("made")

    def datagram_received(self, data: bytes, address: Any) -> None:
        assert type(data) is bytes
        self.received.append((data, address))
        self._note("datagram")

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)
        self._note("error")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._note("lost")
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, event: str) -> None:
        assert "lost" not in self.events, f"{event} after connection_lost"
        assert event == "made" or "made" in self.events, f"{event} before connection_made"
        self.events.append(event)
        self._changed.set()

    async def until(self, condition: Any) -> None:
        """Returns once condition() holds; asked after each callback."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def receive(self, count: int) -> list[bytes]:
        """The first `count` datagrams, once they are there."""
        await self.until(lambda: len(self.received) >= count)
        return [data for data, _ in self.received[:count]]

    async def error(self, count: int = 1) -> Exception:
        """Error number `count`, once it was told."""
        await self.until(lambda: len(self.errors) >= count)
        return self.errors[count - 1]


class Echo(Recorder):
    def datagram_received(self, data: bytes, address: Any) -> None:
        self.transport.sendto(data, address)
        super().datagram_received(data, address)


async def endpoint(factory: Any = Recorder, **options: Any) -> tuple[Any, Any]:
    """(transport, protocol); bound to a free port of the loopback if nothing else is said."""
    if not options:
        options = {"local_addr": LOOPBACK}
    return await asyncio.get_running_loop().create_datagram_endpoint(factory, **options)


def name(transport: Any) -> Any:
    return transport.get_extra_info("sockname")


async def close(*transports: Any) -> None:
    """Closes them and returns once all are gone."""
    for transport in transports:
        protocol = transport.get_protocol()
        transport.close()
        if protocol is not None:
            await protocol.lost


def peer(family: int = socket.AF_INET) -> socket.socket:
    """A blocking socket on the loopback, for the test to talk from."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.settimeout(30)
    made.bind(LOOPBACK if family == socket.AF_INET else ("::1", 0))
    return made


@contextlib.contextmanager
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two bound ones of the loopback that do not block."""
    with (socket.socket(type=socket.SOCK_DGRAM) as ours,
          socket.socket(type=socket.SOCK_DGRAM) as theirs):
        for each in (ours, theirs):
            each.bind(LOOPBACK)
            each.setblocking(False)
        yield ours, theirs
