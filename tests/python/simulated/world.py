"""World: what one simulated run knows; the protocols that watch the order of their callbacks."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from typing import Any, AsyncIterator, Callable

from simulated.sockets import SimSocket

Callback = Callable[..., None]


@functools.cache
def _whole(stream: int) -> bytes:
    return bytes((n * 131 + n // 256 * 7 + stream * 59 + 11) & 0xFF for n in range(1 << 16))


def content(stream: int, at: int, size: int) -> bytes:
    """The bytes of stream number `stream`, at most 64 KiB. Any two streams differ."""
    return _whole(stream)[at:at + size]


class World:
    def __init__(self, simulation: Any, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self.simulation = simulation
        self.loop = loop
        self.seed = seed
        self.broken: list[str] = []
        self.reported: list[dict[str, Any]] = []   # what reached the loop's exception handler
        self.protocols: list[Recorder] = []
        self._sockets: list[SimSocket] = []

    @property
    def clean(self) -> bool:
        return not self.simulation.harmful

    def must(self, holds: bool, rule: str) -> None:
        if not holds:
            self.broken.append(rule)

    def must_if_clean(self, holds: bool, rule: str) -> None:
        if not holds and self.clean:
            self.broken.append(f"{rule} (although no fault stood in the way)")

    def must_match(self, stream: int, at: int, seen: bytes) -> None:
        self.must(seen == content(stream, at, len(seen)),
                  f"stream {stream} is damaged between {at} and {at + len(seen)}")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Polls, ever more slowly, for about an hour: a run that a fault has stalled comes to its
        time limit in few turns."""
        delay = 0.0005
        while not condition():
            await asyncio.sleep(delay)
            delay *= 1.05

    # ---- sockets

    def listening_socket(self, port: int, backlog: int = 16) -> SimSocket:
        made = self._keep(SimSocket(self.simulation))
        made.bind(("127.0.0.1", port))
        made.listen(backlog)
        return made

    def connected_socket(self, port: int) -> SimSocket:
        made = self._keep(SimSocket(self.simulation))
        made.connect(("127.0.0.1", port))
        return made

    def accepted_socket(self, listener: SimSocket) -> SimSocket:
        return self._keep(listener.accept()[0])

    def socket(self) -> SimSocket:
        return self._keep(SimSocket(self.simulation))

    def datagram_socket(self, port: int = 0, peer: int | None = None) -> SimSocket:
        made = self._keep(SimSocket(self.simulation, kind=socket.SOCK_DGRAM))
        made.bind(("127.0.0.1", port))
        if peer is not None:
            made.connect(("127.0.0.1", peer))
        return made

    def _keep(self, made: SimSocket) -> SimSocket:
        self._sockets.append(made)
        return made

    @contextlib.asynccontextmanager
    async def server(self, factory: Callable[[], asyncio.BaseProtocol],
                     port: int = 80) -> AsyncIterator[asyncio.Server]:
        listener = self.listening_socket(port)
        serving = await self.loop.create_server(factory, sock=listener)  # type: ignore[arg-type]
        try:
            yield serving
        finally:
            serving.close()

    async def client(self, factory: Callable[[], Any], port: int = 80) -> tuple[Any, Any]:
        return await self.loop.create_connection(
            factory, sock=self.connected_socket(port))  # type: ignore[arg-type]

    def close_sockets(self) -> None:
        for left in self._sockets:
            left.close()


class Recorder(asyncio.Protocol):
    """A protocol that checks asyncio's promises about the order of its own callbacks:
    connection_made first, connection_lost last, each once; pause and resume in turn; no data after
    the end of the stream."""

    def __init__(self, world: World, stream: int = 0) -> None:
        self.world = world
        self.stream = stream               # what it expects to read
        self.calls: list[str] = []
        self.received = 0
        self.paused = False
        self.transport: Any = None
        self.error: BaseException | None = None
        self.made = world.loop.create_future()
        self.lost = world.loop.create_future()
        world.protocols.append(self)

    def _note(self, call: str) -> None:
        self.world.must("lost" not in self.calls, f"{call} after connection_lost")
        self.world.must(call == "made" or "made" in self.calls, f"{call} before connection_made")
        self.calls.append(call)

    def connection_made(self, transport: Any) -> None:
        self.world.must("made" not in self.calls, "connection_made twice")
        self._note("made")
        self.transport = transport
        self.made.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._note("data")
        self.world.must("eof" not in self.calls, "data after the end of the stream")
        self.world.must(len(data) > 0, "data_received without data")
        self.world.must_match(self.stream, self.received, bytes(data))
        self.received += len(data)
        self.on_data(bytes(data))

    def on_data(self, data: bytes) -> None:
        """For scenarios."""

    def eof_received(self) -> bool | None:
        self.world.must("eof" not in self.calls, "eof_received twice")
        self._note("eof")
        return self.on_eof()

    def on_eof(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        self.world.must(not self.paused, "pause_writing twice")
        self._note("pause")
        self.paused = True
        self.on_writable(False)

    def resume_writing(self) -> None:
        self.world.must(self.paused, "resume_writing without pause_writing")
        self._note("resume")
        self.paused = False
        self.on_writable(True)

    def on_writable(self, writable: bool) -> None:
        """For scenarios."""

    def connection_lost(self, exc: BaseException | None) -> None:
        self._note("lost")
        self.error = exc
        if not self.lost.done():
            self.lost.set_result(None)

    async def written(self) -> None:
        """Until writing is not paused any more, or the connection is lost."""
        await self.world.until(lambda: not self.paused or self.lost.done())
