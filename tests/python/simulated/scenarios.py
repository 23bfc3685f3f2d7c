"""The scenarios: ordinary asyncio programs, with peers over the same simulated kernel."""
from __future__ import annotations

import asyncio
import socket
from typing import Any

import ringloop

from simulated.harness import Main
from simulated.world import Recorder, World, content

SCENARIOS: dict[str, Main] = {}


def scenario(main: Main) -> Main:
    SCENARIOS[main.__name__] = main  # type: ignore[attr-defined]
    return main


class Echo(Recorder):
    def on_data(self, data: bytes) -> None:
        self.transport.write(data)


@scenario
async def protocol_echo(world: World) -> None:
    size = 3000

    class Client(Recorder):
        def on_data(self, data: bytes) -> None:
            if self.received >= size:
                self.transport.close()

    async with world.server(lambda: Echo(world, 1)):
        clients = [(await world.client(lambda: Client(world, 1)))[1] for _ in range(2)]
        for client in clients:
            for at in range(0, size, 500):
                client.transport.write(content(1, at, 500))
        for client in clients:
            await client.lost
            world.must_if_clean(client.received == size, "the echo is complete")
            world.must_if_clean(client.error is None, f"the client lost it by {client.error!r}")


@scenario
async def streams_echo(world: World) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(700):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    listener = world.listening_socket(80)
    server = await asyncio.start_server(serve, sock=listener)  # type: ignore[arg-type]
    writer = None
    try:
        reader, writer = await asyncio.open_connection(sock=world.connected_socket(80))
        for at in range(0, 4000, 1000):
            writer.write(content(2, at, 1000))
            await writer.drain()
            world.must_match(2, at, await reader.readexactly(1000))
        writer.write_eof()
        world.must(await reader.read() == b"", "nothing follows what was echoed")
    finally:
        if writer is not None:
            writer.close()
        server.close()


@scenario
async def flow_control(world: World) -> None:
    """A peer that reads slowly: writing pauses and resumes, memory stays bounded, all arrives."""
    size = 60_000
    high = 8000

    class Writer(Recorder):
        def on_writable(self, writable: bool) -> None:
            queued = self.transport.get_write_buffer_size()
            world.must(writable or queued > high, "paused below the high-water mark")

    listener = world.listening_socket(80)
    transport, writer = await world.client(lambda: Writer(world))
    transport.set_write_buffer_limits(high=high)
    peer = world.accepted_socket(listener)
    seen = 0

    def read_some() -> None:
        nonlocal seen
        try:
            data = peer.recv(1500)
        except BlockingIOError:
            data = b"?"
        except OSError:
            return
        if data == b"":
            return
        if data != b"?":
            world.must_match(3, seen, data)
            seen += len(data)
        world.simulation.after(0.01, read_some)

    world.simulation.after(0.01, read_some)
    for at in range(0, size, 2000):
        if writer.lost.done():
            break
        transport.write(content(3, at, 2000))
        world.must(transport.get_write_buffer_size() <= high + 2000, "memory stays bounded")
        await writer.written()
    transport.close()
    await writer.lost
    await asyncio.sleep(2)
    world.must_if_clean(seen == size, "everything arrived")
    world.must_if_clean("pause" in writer.calls, "writing was paused")
    listener.close()
    peer.close()


@scenario
async def pause_reading(world: World) -> None:
    """Nothing is delivered while reading is paused, nothing is lost by it."""
    size = 20_000
    paused = False

    class Reader(Recorder):
        def on_data(self, data: bytes) -> None:
            nonlocal paused
            world.must(not paused, "data while reading is paused")
            if self.transport.is_closing():
                return
            paused = True
            self.transport.pause_reading()
            world.loop.call_later(0.005, self.resume)

        def resume(self) -> None:
            nonlocal paused
            paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    listener = world.listening_socket(80)
    _, reader = await world.client(lambda: Reader(world, 4))
    peer = world.accepted_socket(listener)
    sent = 0

    def send_some() -> None:
        nonlocal sent
        try:
            sent += peer.send(content(4, sent, min(1000, size - sent)))
        except BlockingIOError:
            pass
        except OSError:
            return
        if sent < size:
            world.simulation.after(0.001, send_some)
        else:
            peer.shutdown(socket.SHUT_WR)

    send_some()
    await reader.lost
    world.must_if_clean(reader.received == size, "everything was read")
    listener.close()
    peer.close()


class Buffered(asyncio.BufferedProtocol):
    def __init__(self, world: World, stream: int) -> None:
        self.world = world
        self.stream = stream
        self.received = 0
        self.room = bytearray(300)
        self.lost = world.loop.create_future()
        self.ended = False
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, hint: int) -> bytearray:
        self.world.must(not self.lost.done(), "get_buffer after connection_lost")
        return self.room

    def buffer_updated(self, size: int) -> None:
        self.world.must(0 < size <= len(self.room), "buffer_updated with a size that fits")
        self.world.must_match(self.stream, self.received, bytes(self.room[:size]))
        self.received += size

    def eof_received(self) -> None:
        self.ended = True

    def connection_lost(self, exc: BaseException | None) -> None:
        self.world.must(not self.lost.done(), "connection_lost twice")
        self.lost.set_result(None)


@scenario
async def buffered_protocol(world: World) -> None:
    listener = world.listening_socket(80)
    transport, protocol = await world.client(lambda: Buffered(world, 5))
    peer = world.accepted_socket(listener)
    for at in range(0, 3000, 1000):
        peer.send(content(5, at, 1000))
        await asyncio.sleep(0.001)
    peer.close()
    await protocol.lost
    world.must_if_clean(protocol.received == 3000, "everything was read")
    world.must_if_clean(protocol.ended, "the end of the stream was seen")
    listener.close()


@scenario
async def half_close(world: World) -> None:
    """write_eof() ends one direction; the answer still comes."""
    class Server(Recorder):
        def on_eof(self) -> bool:
            self.transport.write(content(7, 0, 2000))
            self.transport.close()
            return True

    async with world.server(lambda: Server(world, 6)):
        transport, client = await world.client(lambda: Recorder(world, 7))
        transport.write(content(6, 0, 2500))
        transport.write_eof()
        await client.lost
        world.must_if_clean(client.received == 2000, "the answer is complete")
        served = [p for p in world.protocols if isinstance(p, Server)]
        world.must_if_clean([p.received for p in served] == [2500], "the question is complete")


@scenario
async def peer_reset(world: World) -> None:
    """A reset in the middle of a long send: connection_lost with the error, nothing left over."""
    listener = world.listening_socket(80)
    transport, protocol = await world.client(lambda: Recorder(world))
    peer = world.accepted_socket(listener)
    transport.write(content(8, 0, 50_000))
    world.simulation.after(0.01, lambda: peer.fileno() < 0 or world.simulation.reset(peer.fileno()))
    await protocol.lost
    world.must_if_clean(isinstance(protocol.error, ConnectionError), f"lost by {protocol.error!r}")
    transport.write(b"after the end")
    transport.close()
    listener.close()
    peer.close()


@scenario
async def close_after_accept(world: World) -> None:
    """The server closes at once; a client that is still writing comes to its end."""
    class Rude(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.close()

    async with world.server(lambda: Rude(world, 9)):
        clients = []
        for _ in range(3):
            transport, client = await world.client(lambda: Recorder(world))
            transport.write(content(9, 0, 100))
            clients.append(client)
        for client in clients:
            await client.lost


@scenario
async def abort_with_writes_queued(world: World) -> None:
    listener = world.listening_socket(80)
    transport, protocol = await world.client(lambda: Recorder(world))
    peer = world.accepted_socket(listener)
    transport.write(content(10, 0, 50_000))
    await asyncio.sleep(0.001)
    transport.abort()
    await protocol.lost
    seen = 0
    while True:
        try:
            data = peer.recv(4096)
        except OSError:
            break
        if not data:
            break
        world.must_match(10, seen, data)
        seen += len(data)
    world.must(seen < 50_000, "abort drops what is queued")
    listener.close()
    peer.close()


@scenario
async def close_flushes(world: World) -> None:
    """close() sends what was written first, also what one turn queued; then the peer sees EOF."""
    listener = world.listening_socket(80)
    transport, protocol = await world.client(lambda: Recorder(world))
    peer = world.accepted_socket(listener)
    for at in range(0, 3000, 100):
        transport.write(content(11, at, 100))
    transport.writelines([content(11, 3000, 50), content(11, 3050, 50)])
    transport.close()
    await protocol.lost
    seen = b""
    try:
        while data := peer.recv(4096):
            seen += data
        world.must_if_clean(len(seen) == 3100, "everything arrived before the end")
    except OSError as error:
        world.must_if_clean(False, f"the peer saw {error!r}")
    world.must_match(11, 0, seen)
    listener.close()
    peer.close()


@scenario
async def timeouts(world: World) -> None:
    """Timers in order, never early; cancelled reads lose nothing."""
    fired: list[float] = []
    begun = world.loop.time()
    for delay in (0.03, 0.01, 0.02, 0.01):
        world.loop.call_later(delay, lambda d=delay: fired.append(d))  # type: ignore[misc]
    gone = world.loop.call_later(0.015, fired.append, -1.0)
    gone.cancel()
    await asyncio.sleep(0.05)
    world.must(world.loop.time() - begun >= 0.05, "a timer never fires early")
    world.must(fired == [0.01, 0.01, 0.02, 0.03], f"timers fired in the order {fired}")

    listener = world.listening_socket(80)
    reader, writer = await asyncio.open_connection(sock=world.connected_socket(80))
    peer = world.accepted_socket(listener)
    try:
        for at in range(0, 1000, 100):
            delay = 0.001 * (at // 100 % 3)
            world.simulation.after(delay, lambda at=at: quiet_send(peer, content(12, at, 100)))
            got = b""
            while len(got) < 100:
                try:
                    async with asyncio.timeout(0.001):
                        data = await reader.read(100 - len(got))
                except TimeoutError:
                    await asyncio.sleep(0.0005)
                    continue
                if not data:
                    world.must_if_clean(False, "the stream ended early")
                    return
                got += data
            world.must_match(12, at, got)
    finally:
        writer.close()
        listener.close()
        peer.close()


def quiet_send(peer: Any, data: bytes) -> None:
    try:
        peer.send(data)
    except OSError:
        pass


@scenario
async def server_closed_with_connections(world: World) -> None:
    """Server.close() ends accepting only; the connections live on until they are closed."""
    async with world.server(lambda: Echo(world, 13)) as server:
        transport, client = await world.client(lambda: Recorder(world, 13))
        transport.write(content(13, 0, 10))
        await world.until(lambda: client.received >= 10 or client.lost.done())
        server.close()
        await asyncio.sleep(0)
        try:
            world.connected_socket(80)
            world.must(False, "a closed server still accepts")
        except ConnectionRefusedError:
            pass
        if not client.lost.done():
            transport.write(content(13, 10, 10))
        await world.until(lambda: client.received >= 20 or client.lost.done())
        world.must_if_clean(client.received == 20, "the echo goes on")
        transport.close()
        await client.lost


# ---- sock_*

async def sock_read(world: World, sock: Any, stream: int, size: int, into: bool) -> int:
    """Reads stream number `stream` up to `size` bytes; returns how many came."""
    seen = 0
    room = bytearray(300)
    while seen < size:
        if into:
            count = await world.loop.sock_recv_into(sock, room)
            data = bytes(room[:count])
        else:
            data = await world.loop.sock_recv(sock, 400)
        if not data:
            break
        world.must_match(stream, seen, data)
        seen += len(data)
    return seen


@scenario
async def sock_echo(world: World) -> None:
    """accept, connect, recv, recv_into and sendall, more clients than the backlog holds."""
    loop: Any = world.loop
    size = 2000
    listener = world.listening_socket(80, backlog=1)

    async def serve(connection: Any) -> None:
        try:
            while data := await loop.sock_recv(connection, 700):
                await loop.sock_sendall(connection, data)
        finally:
            connection.close()

    async def accept(group: asyncio.TaskGroup) -> None:
        while True:
            connection, _ = await loop.sock_accept(listener)
            group.create_task(serve(connection))

    async def ask(into: bool) -> None:
        sock = world.socket()
        try:
            await loop.sock_connect(sock, ("127.0.0.1", 80))
            await loop.sock_sendall(sock, content(20, 0, size))
            seen = await sock_read(world, sock, 20, size, into)
            world.must_if_clean(seen == size, "the echo is complete")
        finally:
            sock.close()

    try:
        async with asyncio.TaskGroup() as sessions:
            accepting = sessions.create_task(accept(sessions))
            async with asyncio.TaskGroup() as clients:
                for number in range(3):
                    clients.create_task(ask(number % 2 == 0))
            accepting.cancel()
    finally:
        listener.close()


@scenario
async def sock_cancel(world: World) -> None:
    """sock_recv under time limits that race the arrival: nothing is lost; sock_accept likewise."""
    loop: Any = world.loop
    listener = world.listening_socket(80)
    try:
        async with asyncio.timeout(0.001):
            await loop.sock_accept(listener)
        world.must(False, "accepted a connection that nobody made")
    except TimeoutError:
        pass
    sock = world.connected_socket(80)
    peer, _ = await loop.sock_accept(listener)
    try:
        for at in range(0, 1000, 50):
            world.simulation.after(0.00001 * (at // 50 % 8),
                                   lambda at=at: quiet_send(peer, content(21, at, 50)))
            got = b""
            while len(got) < 50:
                try:
                    async with asyncio.timeout(0.00003):
                        data = await loop.sock_recv(sock, 50 - len(got))
                except TimeoutError:
                    continue
                if not data:
                    world.must_if_clean(False, "the stream ended early")
                    return
                got += data
            world.must_match(21, at, got)
    finally:
        sock.close()
        peer.close()
        listener.close()


# ---- files

@scenario
async def file_copy(world: World) -> None:
    """Read in pieces and written elsewhere, by the ring; what is there is a prefix at any time."""
    size = 10_000
    world.simulation.add_file("/from", content(22, 0, size))
    copied = 0
    async with ringloop.open("/from", "rb") as source, ringloop.open("/to", "wb") as copy:
        while data := await source.read(1500):
            world.must_match(22, copied, data)
            await copy.write(data)
            copied += len(data)
    world.must_match(22, 0, world.simulation.file_content("/to"))
    world.must_if_clean(copied == size, "all of it was copied")
    world.must_if_clean((await ringloop.fs.stat("/to")).st_size == size, "the copy has its size")
    world.must_match(22, 0, await ringloop.fs.read_bytes("/from"))


@scenario
async def file_cancel(world: World) -> None:
    """Opens and reads given up at any moment leave no descriptor and move no position."""
    world.simulation.add_file("/from", content(23, 0, 3000))
    for turn in range(8):
        try:
            async with asyncio.timeout(0.00004 * turn):
                async with ringloop.open("/from", "rb") as source:
                    world.must_match(23, 0, await source.read(1000))
                    world.must_match(23, 1000, await source.pread(500, offset=1000))
        except TimeoutError:
            continue
    try:
        await ringloop.open("/none", "rb")
        world.must(False, "a missing file was opened")
    except OSError as error:
        world.must_if_clean(isinstance(error, FileNotFoundError), f"{error!r} for a missing file")
