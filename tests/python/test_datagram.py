"""Datagram endpoints: what arrives, where it goes, in which order, and how they end."""
from __future__ import annotations

import array
import asyncio
import contextlib
import contextvars
import gc
import logging
import os
import socket
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from harness.datagrams import LOOPBACK, Echo, Recorder, close, endpoint, name, peer
from harness.forks import fork
from harness.loops import Run
from harness.tcp import elsewhere, turns

sends_empty = pytest.mark.skipif(sys.version_info < (3, 13),
                                 reason="asyncio before 3.13 sends no empty datagrams")


async def connected_pair() -> tuple[Any, Any, Any, Any]:
    """An echo and a client that is connected to it."""
    far, echo = await endpoint(Echo)
    near, client = await endpoint(remote_addr=name(far))
    return near, client, far, echo


# ---- what arrives

@pytest.mark.parametrize("size", [
    pytest.param(0, marks=sends_empty), 1, 1472, 1473, 65492, 65493, 65507])
async def test_a_datagram_of_any_size_is_echoed_whole(size: int) -> None:
    near, client, far, _ = await connected_pair()
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    near.sendto(data)
    assert await client.receive(1) == [data]
    assert client.received[0][1] == name(far)
    await close(near, far)


async def test_empty_datagrams_are_received() -> None:
    transport, protocol = await endpoint()
    with peer() as other:
        for data in (b"", b"full", b""):
            other.sendto(data, name(transport))
    assert await protocol.receive(3) == [b"", b"full", b""]
    await close(transport)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="sent from 3.13 on")
async def test_empty_datagrams_are_not_sent_before_3_13() -> None:
    near, client, far, echo = await connected_pair()
    near.sendto(b"")
    near.sendto(b"full")
    assert await client.receive(1) == [b"full"]
    await close(near, far)


async def test_a_burst_of_one_turn_arrives_in_order() -> None:
    near, client, far, echo = await connected_pair()
    sent = [b"%d" % number for number in range(150)]
    for data in sent:
        near.sendto(data)
    assert await echo.receive(150) == sent
    assert await client.receive(150) == sent
    await close(near, far)


class Window(asyncio.DatagramProtocol):
    """Lean, for many datagrams: sends the next window once one has come back."""

    total, size = 100_000, 50

    def __init__(self) -> None:
        self.numbers: list[bytes] = []
        self.sent = 0
        self.errors: list[Exception] = []
        self.done = asyncio.get_running_loop().create_future()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.fill()

    def fill(self) -> None:
        for number in range(self.sent, self.sent + self.size):
            self.transport.sendto(number.to_bytes(4, "big"))
        self.sent += self.size

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.numbers.append(data)
        if len(self.numbers) == self.total:
            self.done.set_result(None)
        elif len(self.numbers) == self.sent:
            self.fill()

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


class LeanEcho(Window):
    def connection_made(self, transport: Any) -> None:
        self.datagram_received = transport.sendto


@pytest.mark.time_limit(240)
async def test_100000_datagrams_keep_their_order() -> None:
    far, echo = await endpoint(LeanEcho)
    near, client = await endpoint(Window, remote_addr=name(far))
    await client.done
    assert [int.from_bytes(data, "big") for data in client.numbers] == list(range(Window.total))
    assert not client.errors and not echo.errors
    await close(near, far)


async def test_the_first_datagram_of_a_turn_leaves_at_once() -> None:
    transport, _ = await endpoint()
    with peer() as other:
        transport.sendto(b"now", other.getsockname())
        assert other.recv(16) == b"now"       # the loop has not turned
        transport.sendto(b"later", other.getsockname())
        assert await elsewhere(other.recv, 16) == b"later"
    await close(transport)


async def test_answers_do_not_wait_for_a_batch_of_slow_callbacks() -> None:
    other = peer()
    seen = []

    class Slow(Recorder):
        def datagram_received(self, data: bytes, address: Any) -> None:
            if self.received:
                seen.append(other.recv(16))   # blocks the loop: the first answer is under way
            else:
                self.transport.sendto(b"answer", address)
                start = asyncio.get_running_loop().time()
                while asyncio.get_running_loop().time() < start + 0.003:
                    pass
            super().datagram_received(data, address)

    transport, protocol = await endpoint(Slow)
    for _ in range(2):
        other.sendto(b"x", name(transport))
    await protocol.receive(2)
    assert seen == [b"answer"]
    await close(transport)
    other.close()


async def test_many_senders_are_told_apart() -> None:
    transport, _ = await endpoint(Echo)
    others = [peer() for _ in range(200)]     # more than the cache of addresses holds
    for repeat in range(2):
        for number, other in enumerate(others):
            other.sendto(b"%d %d" % (repeat, number), name(transport))
            data, address = await elsewhere(other.recvfrom, 64)
            assert (data, address) == (b"%d %d" % (repeat, number), name(transport))
    for other in others:
        other.close()
    await close(transport)


async def test_what_a_buffer_held_at_the_call_is_sent() -> None:
    near, client, far, echo = await connected_pair()
    changing = bytearray(b"before")
    wide = array.array("I", [1, 2, 3])
    expected = [b"first", b"before", wide.tobytes(), b"efo"]
    near.sendto(b"first")                     # the others wait for the turn's end
    near.sendto(changing)
    near.sendto(memoryview(wide))
    near.sendto(memoryview(changing)[1:4])
    changing[:] = b"after!"
    wide[0] = 9
    assert await echo.receive(4) == expected
    await close(near, far)


@pytest.mark.parametrize("data", ["text", 7, None, [b"x"], array.array("b", [1])])
async def test_what_is_no_bytes_is_refused(data: Any) -> None:
    transport, protocol = await endpoint()
    with pytest.raises(TypeError, match=f"bytes-like object, not '{type(data).__name__}'"):
        transport.sendto(data, LOOPBACK)
    assert not protocol.errors
    await close(transport)


async def test_arguments_may_be_named() -> None:
    transport, protocol = await endpoint()
    transport.sendto(data=b"to myself", addr=name(transport))
    assert await protocol.receive(1) == [b"to myself"]
    for wrong in ({}, {"address": 1}):
        with pytest.raises(TypeError):
            transport.sendto(**wrong)
    await close(transport)


# ---- addresses

async def test_a_connected_endpoint_takes_no_other_address() -> None:
    near, client, far, _ = await connected_pair()
    with pytest.raises(ValueError, match="Invalid address: must be None or "):
        near.sendto(b"elsewhere", ("127.0.0.1", 9))
    near.sendto(b"named", name(far))
    assert await client.receive(1) == [b"named"]
    await close(near, far)


async def test_a_name_is_resolved_by_the_socket_module() -> None:
    transport, protocol = await endpoint()
    port = name(transport)[1]
    transport.sendto(b"one", ("127.0.0.1", port))
    transport.sendto(b"two", ("localhost", port))      # behind one that is queued
    transport.sendto(b"three", ("127.0.0.1", port))
    assert await protocol.receive(3) == [b"one", b"two", b"three"]
    await close(transport)


@pytest.mark.parametrize("length", [2, 3, 4])
async def test_ipv6_addresses_come_in_three_lengths(length: int) -> None:
    transport, protocol = await endpoint(local_addr=("::1", 0))
    transport.sendto(b"six", name(transport)[:length])
    assert await protocol.receive(1) == [b"six"]
    assert protocol.received[0][1] == name(transport)
    assert len(protocol.received[0][1]) == 4
    await close(transport)


async def test_ipv6_scopes_are_kept() -> None:
    """The number of the interface, wherever it is written."""
    number = socket.if_nametoindex("lo")
    transport, protocol = await endpoint(local_addr=("::1", 0))
    port = name(transport)[1]
    transport.sendto(b"number", ("::1", port, 0, number))
    transport.sendto(b"name", (f"::1%{number}", port))
    assert await protocol.receive(2) == [b"number", b"name"]
    transport.sendto(b"link", ("fe80::1", port, 0, number))  # no such host, or no route: an errno
    await turns()
    assert all(isinstance(error, OSError) for error in protocol.errors)
    await close(transport)


async def test_broadcast_needs_to_be_allowed() -> None:
    receiver, protocol = await endpoint(local_addr=("0.0.0.0", 0))
    to = ("127.255.255.255", name(receiver)[1])
    plain, refused = await endpoint()
    plain.sendto(b"no", to)
    assert isinstance(await refused.error(), PermissionError)
    allowed, _ = await endpoint(local_addr=LOOPBACK, allow_broadcast=True)
    allowed.sendto(b"yes", to)
    assert await protocol.receive(1) == [b"yes"]
    bound, _ = await endpoint(remote_addr=to, allow_broadcast=True)   # not connected, one address
    assert bound.get_extra_info("peername") is None
    bound.sendto(b"also")
    assert await protocol.receive(2) == [b"yes", b"also"]
    with pytest.raises(ValueError, match="Invalid address"):
        bound.sendto(b"elsewhere", LOOPBACK)
    await close(receiver, plain, allowed, bound)


async def test_two_endpoints_share_a_port() -> None:
    first, _ = await endpoint(local_addr=LOOPBACK, reuse_port=True)
    second, _ = await endpoint(local_addr=name(first), reuse_port=True)
    assert name(first) == name(second)
    await close(first, second)


async def test_a_socket_that_was_made_elsewhere_is_taken_over() -> None:
    with peer() as other:
        mine = peer()
        mine.connect(other.getsockname())
        transport, protocol = await endpoint(sock=mine)
        transport.sendto(b"ping")
        data, address = await elsewhere(other.recvfrom, 16)
        other.sendto(b"pong", address)
        assert (data, await protocol.receive(1)) == (b"ping", [b"pong"])
        await close(transport)
        assert mine.fileno() == -1


# ---- Unix sockets

async def test_unix_endpoints_know_each_other_by_path(tmp_path: Path) -> None:
    server, echo = await endpoint(Echo, family=socket.AF_UNIX, local_addr=str(tmp_path / "s"))
    client, protocol = await endpoint(family=socket.AF_UNIX, local_addr=str(tmp_path / "c"),
                                      remote_addr=str(tmp_path / "s"))
    client.sendto(b"ping")
    assert await protocol.receive(1) == [b"ping"]
    assert echo.received == [(b"ping", str(tmp_path / "c"))]
    assert protocol.received == [(b"ping", str(tmp_path / "s"))]
    await close(server, client)


async def test_a_unix_path_left_by_another_life_is_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    for _ in range(2):
        transport, _ = await endpoint(family=socket.AF_UNIX, local_addr=path)
        await close(transport)


async def test_abstract_unix_names() -> None:
    server, echo = await endpoint(Echo, family=socket.AF_UNIX, local_addr="\0ringloop-dg-s")
    client, protocol = await endpoint(family=socket.AF_UNIX, local_addr="\0ringloop-dg-c")
    client.sendto(b"by str", "\0ringloop-dg-s")
    client.sendto(b"by bytes", b"\0ringloop-dg-s")
    assert await protocol.receive(2) == [b"by str", b"by bytes"]
    assert {address for _, address in echo.received} == {b"\0ringloop-dg-c"}
    await close(server, client)


async def test_a_unix_sender_without_a_name_has_no_address(tmp_path: Path) -> None:
    server, protocol = await endpoint(family=socket.AF_UNIX, local_addr=str(tmp_path / "s"))
    client, _ = await endpoint(family=socket.AF_UNIX, remote_addr=str(tmp_path / "s"))
    client.sendto(b"who am I?")
    await protocol.receive(1)
    assert protocol.received == [(b"who am I?", None)]
    await close(server, client)


async def test_a_unix_datagram_longer_than_any_of_udp_arrives_whole() -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    near, _ = await endpoint(sock=one)
    far, protocol = await endpoint(sock=other)
    data = bytes(range(256)) * 600             # 150 KiB
    near.sendto(data)
    assert await protocol.receive(1) == [data]
    await close(near, far)


# ---- what the transport tells

async def test_a_transport_is_one_of_asyncios() -> None:
    near, client, far, _ = await connected_pair()
    assert isinstance(near, asyncio.DatagramTransport)
    assert near.get_protocol() is client
    wrapped = near.get_extra_info("socket")
    assert type(wrapped).__name__ == "TransportSocket"
    assert (wrapped.family, wrapped.type) == (socket.AF_INET, socket.SOCK_DGRAM)
    assert wrapped.getpeername() == near.get_extra_info("peername") == name(far)
    assert near.get_extra_info("nothing", 5) == 5
    assert near.get_write_buffer_size() == 0
    assert near.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
    near.note = "mine"                         # attributes, as on the stock class
    assert near.note == "mine" and weakref.ref(near)() is near
    assert near.is_reading() and not near.is_closing()
    assert "read=polling" in repr(near) and "bufsize=0" in repr(near)
    await close(near, far)
    assert near.is_closing() and "closed" in repr(near)


async def test_an_endpoints_descriptor_is_nobody_elses() -> None:
    transport, _ = await endpoint()
    loop = asyncio.get_running_loop()
    for touch in (lambda fd: loop.add_reader(fd, print), loop.remove_writer):
        with pytest.raises(RuntimeError, match="is used by transport"):
            touch(transport.get_extra_info("socket").fileno())
    await close(transport)


async def test_callbacks_run_in_the_context_of_the_creation() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen = []

    class Looker(Recorder):
        def _note(self, event: str) -> None:
            seen.append((event, variable.get()))
            super()._note(event)

    variable.set("at creation")
    transport, protocol = await endpoint(Looker)
    variable.set("later")
    with peer() as other:
        other.sendto(b"x", name(transport))
        await protocol.receive(1)
    await close(transport)
    assert seen == [(event, "at creation") for event in ("made", "datagram", "lost")]


# ---- reading paused

async def test_a_pause_in_the_middle_of_a_batch_loses_nothing() -> None:
    class Pausing(Recorder):
        def datagram_received(self, data: bytes, address: Any) -> None:
            super().datagram_received(data, address)
            self.transport.pause_reading()

    transport, protocol = await endpoint(Pausing)
    with peer() as other:
        for number in range(10):
            other.sendto(b"%d" % number, name(transport))
    for count in range(1, 11):
        assert await protocol.receive(count) == [b"%d" % number for number in range(count)]
        await turns()
        assert len(protocol.received) == count and not transport.is_reading()
        transport.resume_reading()
    await close(transport)


async def test_what_was_held_back_is_dropped_by_a_close() -> None:
    class Pausing(Recorder):
        def datagram_received(self, data: bytes, address: Any) -> None:
            super().datagram_received(data, address)
            self.transport.pause_reading()

    transport, protocol = await endpoint(Pausing)
    with peer() as other:
        for _ in range(10):
            other.sendto(b"x", name(transport))
    await protocol.receive(1)
    transport.resume_reading()
    await close(transport)
    assert protocol.events == ["made", "datagram", "lost"]


# ---- the end

async def test_close_sends_what_is_queued_and_tells_once() -> None:
    near, client, far, echo = await connected_pair()
    for number in range(20):
        near.sendto(b"%d" % number)
    near.close()
    near.close()
    assert await client.lost is None
    assert await echo.receive(20) == [b"%d" % number for number in range(20)]
    assert client.events == ["made", "lost"]
    await close(far)


async def test_abort_tells_once_and_nothing_is_delivered_behind_it() -> None:
    class Aborting(Recorder):
        def datagram_received(self, data: bytes, address: Any) -> None:
            super().datagram_received(data, address)
            self.transport.abort()
            self.transport.abort()

    transport, protocol = await endpoint(Aborting)
    with peer() as other:
        for _ in range(5):
            other.sendto(b"x", name(transport))
    assert await protocol.lost is None
    assert protocol.events == ["made", "datagram", "lost"]


async def test_a_protocol_may_close_in_connection_made() -> None:
    class Shy(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.close()

    _, protocol = await endpoint(Shy)
    assert await protocol.lost is None
    assert protocol.events == ["made", "lost"]


async def test_sends_behind_the_end_are_silent_at_first(caplog: pytest.LogCaptureFixture) -> None:
    near, _, far, _ = await connected_pair()
    await close(near)
    with caplog.at_level(logging.WARNING, "asyncio"):
        for _ in range(4):
            near.sendto(b"x")
        assert not caplog.records
        near.sendto(b"x")
        near.sendto(b"x")
    assert {record.message for record in caplog.records} == {"socket.send() raised exception."}
    unbound, _ = await endpoint()
    await close(unbound)
    unbound.sendto(b"x", LOOPBACK)
    await close(far)


async def test_a_cancelled_creation_leaves_nothing_open() -> None:
    for steps in range(4):
        task = asyncio.ensure_future(endpoint())
        await turns(steps)
        task.cancel()
        try:
            transport, _ = await task
            await close(transport)
        except asyncio.CancelledError:
            await turns()


async def test_an_ended_endpoint_is_freed_although_all_know_each_other() -> None:
    transport, protocol = await endpoint()
    transport.own, protocol.own = protocol, protocol
    watch = weakref.ref(transport), weakref.ref(protocol)
    await close(transport)
    del transport, protocol
    await turns()
    gc.collect()
    assert [each() for each in watch] == [None, None]


def test_a_loop_that_closes_over_an_endpoint_lets_its_descriptor_go(run: Run) -> None:
    with pytest.warns(ResourceWarning, match="unclosed transport <DatagramTransport"):
        run(endpoint(asyncio.DatagramProtocol))    # keeps no transport: freed by its count
        gc.collect()


def test_an_endpoint_of_a_closed_loop_says_so(run: Run) -> None:
    transport, _ = run(endpoint(asyncio.DatagramProtocol))
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        transport.sendto(b"x", LOOPBACK)
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        transport.close()
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        del transport
        gc.collect()


def in_child(work: Any) -> None:
    """Runs `work` in a forked child; the child's end is this call's."""
    pid = fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


async def test_what_is_queued_at_a_fork_is_sent_once() -> None:
    """A child that closed its copy of the endpoint used to send it again."""
    transport, _ = await endpoint()

    def close_copy() -> None:
        with contextlib.suppress(RuntimeError):     # its loop is closed
            transport.close()
        with contextlib.suppress(RuntimeError):
            transport.abort()

    with peer() as other:
        for data in (b"1", b"2", b"3"):
            transport.sendto(data, other.getsockname())
        in_child(close_copy)
        await turns()
        transport.sendto(b"end", other.getsockname())
        assert [other.recv(10) for _ in range(4)] == [b"1", b"2", b"3", b"end"]
    await close(transport)


def test_the_rest_of_a_batch_is_the_parents_when_a_callback_forks(run: Run) -> None:
    """The child used to get it as well, and to send the answers that were queued."""
    parent = os.getpid()
    read, write = os.pipe()
    children: list[int] = []

    class Forking(Echo):
        def datagram_received(self, data: bytes, address: Any) -> None:
            if os.getpid() != parent:
                os.write(write, data)
            super().datagram_received(data, address)
            if data == b"2":
                pid = fork()
                if pid:
                    children.append(pid)
                    os.waitpid(pid, 0)
                else:
                    end = time.monotonic() + 0.002      # longer than answers wait in a batch
                    while time.monotonic() < end:
                        continue

    async def main() -> None:
        transport, protocol = await endpoint(Forking)
        with peer() as other:
            for data in (b"1", b"2", b"3", b"4"):
                other.sendto(data, name(transport))
            await protocol.receive(4)
            await turns()
            other.sendto(b"5", name(transport))
            await protocol.receive(5)
            assert [other.recv(10) for _ in range(5)] == [b"1", b"2", b"3", b"4", b"5"]
        await close(transport)

    try:
        run(main())
    finally:
        if os.getpid() != parent:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b""
    assert len(children) == 1
