"""Descriptors that change behind the loop's back: closed, duplicated, reused while watched."""
from __future__ import annotations

import asyncio
import os
import select
import socket

import pytest

from harness import loops


def eof_arrives(peer: socket.socket) -> bool:
    """Whether the peer sees the end within a second, without the loop's help."""
    readable, _, _ = select.select([peer], [], [], 1.0)
    return bool(readable) and peer.recv(1) == b""


@pytest.mark.parametrize("watch", ["reader", "writer", "both"])
def test_the_peer_sees_the_end_at_once_after_remove_and_close(run: loops.Run, watch: str) -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        if watch in ("writer", "both"):
            while True:                     # full: the watch for writing stays armed
                try:
                    ours.send(b"x" * 65536)
                except BlockingIOError:
                    break
            loop.add_writer(ours, lambda: None)
        if watch in ("reader", "both"):
            loop.add_reader(ours, lambda: None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if watch in ("writer", "both"):
            assert loop.remove_writer(ours)
        if watch in ("reader", "both"):
            assert loop.remove_reader(ours)
        ours.close()
        if watch != "reader":
            peer.setblocking(False)
            while peer.recv(1 << 20):
                pass
            peer.close()
            return True
        with peer:
            return eof_arrives(peer)

    assert run(main())


def test_the_peer_sees_the_end_at_once_after_a_cancelled_receive_and_close(run: loops.Run) -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        ours, peer = socket.socketpair()
        ours.setblocking(False)
        task = loop.create_task(loop.sock_recv(ours, 100))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ours.close()
        with peer:
            return eof_arrives(peer)

    assert run(main())


def test_a_number_closed_while_watched_and_used_again_gets_its_own_events(run: loops.Run) -> None:
    async def main() -> tuple[list[str], bytes]:
        loop = asyncio.get_running_loop()
        events: list[str] = []
        first, first_peer = socket.socketpair()
        kept = os.dup(first.fileno())           # keeps the first description alive
        number = first.fileno()
        loop.add_reader(number, events.append, "first")
        await asyncio.sleep(0)
        first.close()                           # behind the loop's back
        second, second_peer = socket.socketpair()
        if second.fileno() != number:
            os.dup2(second.fileno(), number)
        arrived = asyncio.Event()

        def readable() -> None:
            events.append("second")
            arrived.set()

        loop.add_reader(number, readable)       # replaces the watch of the old number
        first_peer.send(b"for nobody")
        second_peer.send(b"for the second")
        await arrived.wait()
        assert loop.remove_reader(number)
        data = os.read(number, 100)
        if second.fileno() != number:
            os.close(number)
        os.close(kept)
        for one in (first_peer, second, second_peer):
            one.close()
        return events, data

    events, data = run(main())
    assert set(events) == {"second"}
    assert data == b"for the second"


def test_a_duplicate_closed_behind_the_loop_leaves_the_transport_working(run: loops.Run) -> None:
    async def main() -> bytes:
        ours, peer = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        copy = os.dup(writer.get_extra_info("socket").fileno())
        os.close(copy)
        peer.sendall(b"still there")
        data = await reader.readexactly(11)
        writer.close()
        await writer.wait_closed()
        peer.close()
        return data

    assert run(main()) == b"still there"


def test_a_transport_whose_number_was_closed_elsewhere_ends(run: loops.Run) -> None:
    """The transport ends by an error or an end; the loop goes on, nothing crashes."""
    async def main() -> str:
        ours, peer = socket.socketpair()
        number = ours.fileno()
        reader, writer = await asyncio.open_connection(sock=ours)
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        replacement = os.open(os.devnull, os.O_RDWR)
        os.dup2(replacement, number)            # somebody else's descriptor now
        os.close(replacement)
        writer.write(b"x")
        peer.close()
        try:
            async with asyncio.timeout(5):
                await reader.read()
        except (OSError, TimeoutError):
            pass
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass
        return await asyncio.sleep(0.001, "alive")

    assert run(main()) == "alive"


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_a_bad_descriptor_is_refused_at_once(run: loops.Run, number: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises((ValueError, OSError)):
            loop.add_reader(number, print)

    run(main())


def test_a_regular_file_cannot_be_watched(run: loops.Run) -> None:
    async def main() -> None:
        with open(__file__, "rb") as file, pytest.raises(PermissionError):
            asyncio.get_running_loop().add_reader(file, print)

    run(main())
