"""OwnedFd, and descriptors that travel over Unix sockets: send_handle(), recv_handle()."""
from __future__ import annotations

import asyncio
import copy
import errno
import multiprocessing.reduction
import os
import pickle
import resource
import socket
import subprocess
import sys
from typing import Any, Iterator

import pytest

import ringloop
from harness.tcp import Recorder, attach, elsewhere, read_all, tcp_pair, turns


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)
    with a, b:
        yield a, b


def opened() -> ringloop.OwnedFd:
    return ringloop.OwnedFd(os.open(os.devnull, os.O_RDWR))


def is_open(fd: int) -> bool:
    return os.path.exists(f"/proc/self/fd/{fd}")


# ---- OwnedFd

def test_an_owned_descriptor_has_one_end():
    with opened() as owned:
        fd = owned.fileno()
        assert is_open(fd) and not owned.closed and repr(owned) == f"<OwnedFd {fd}>"
    assert owned.closed and not is_open(fd) and repr(owned) == "<OwnedFd closed>"
    owned.close()
    for call in (owned.fileno, owned.detach):
        with pytest.raises(ValueError, match="closed, or has given"):
            call()
    owned = opened()
    fd = owned.detach()
    assert owned.closed and is_open(fd)
    os.close(fd)
    with pytest.raises(OSError, match=f"{fd} is no open descriptor"):
        ringloop.OwnedFd(fd)
    with pytest.raises(TypeError, match="a descriptor is an int"):
        ringloop.OwnedFd("1")       # type: ignore[arg-type]


def test_one_that_is_lost_is_closed_with_a_warning():
    owned = opened()
    fd = owned.fileno()
    with pytest.warns(ResourceWarning, match=f"unclosed <OwnedFd {fd}>"):
        del owned
    assert not is_open(fd)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_one_that_could_be_copied_would_be_closed_twice(way):
    """A copy had the same descriptor, and closed it: by then it may be a stranger's."""
    with opened() as owned:
        with pytest.raises(TypeError, match="has one owner"):
            way(owned)


async def test_what_a_handle_will_close_is_nobody_else_s_to_give():
    """Its number used to be sent, and closed; the OwnedFd then closed whatever had it next."""
    a, b = socket.socketpair()
    a.setblocking(False)
    with a, b, ringloop.OwnedFd(a.detach()) as owned:
        channel, end = socket.socketpair()
        channel.setblocking(False)
        with channel, end:
            with pytest.raises(ringloop.FdConflictError, match=r"by handle <OwnedFd \d+> \(open"):
                await ringloop.send_handle(channel, owned.fileno())
        with pytest.raises(ringloop.FdConflictError, match=r"by handle .* by attach\(\)"):
            stolen = socket.socket(fileno=owned.fileno())
            try:
                await ringloop.attach(stolen, asyncio.Protocol)
            finally:
                stolen.detach()
        assert is_open(owned.fileno())


# ---- the way over a socket

@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_a_descriptor_moves_under_any_loop(on_host, kind):
    async def main() -> None:
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        a.setblocking(False)
        b.setblocking(False)
        with a, b:
            coming = asyncio.ensure_future(ringloop.recv_handle(b))     # it waits
            await turns()
            reading, writing = os.pipe()
            await ringloop.send_handle(a, writing)
            with await coming as owned:
                assert not is_open(writing) or owned.fileno() == writing
                assert os.get_inheritable(owned.fileno()) is False
                os.write(owned.fileno(), b"x")
            assert os.read(reading, 10) == b"x" and os.read(reading, 10) == b""
            with open(reading, "rb") as file:
                await ringloop.send_handle(a, file, keep=True)
                with await ringloop.recv_handle(b) as owned:
                    assert not file.closed and os.path.sameopenfile(file.fileno(), owned.fileno())

    on_host(main())


def test_a_cancelled_receive_takes_nothing(on_host, channel):
    async def main() -> None:
        waiting = [asyncio.ensure_future(ringloop.recv_handle(channel[1])) for _ in range(3)]
        await turns()
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        for _ in waiting[1:]:
            await ringloop.send_handle(channel[0], opened())
        for receiving in waiting[1:]:
            (await receiving).close()
        late = asyncio.ensure_future(ringloop.recv_handle(channel[1]))
        await turns()
        await ringloop.send_handle(channel[0], opened())
        late.cancel()                                   # it has come, and nobody was told yet
        await asyncio.wait({late})
        with (late.result() if not late.cancelled() else await ringloop.recv_handle(channel[1])):
            pass

    on_host(main())


def test_a_send_waits_for_room_and_a_cancelled_one_has_sent_nothing(on_host, channel):
    async def main() -> None:
        with opened() as owned:
            sent = 0
            while True:
                sending = asyncio.ensure_future(
                    ringloop.send_handle(channel[0], owned, keep=True))
                await turns()
                if not sending.done():
                    break
                sent += 1
            sending.cancel()
            await asyncio.wait({sending})
            assert sending.cancelled() and not owned.closed
            last = asyncio.ensure_future(ringloop.send_handle(channel[0], owned))
            for _ in range(sent + 1):
                (await ringloop.recv_handle(channel[1])).close()
            await last
            assert owned.closed
        with pytest.raises(BlockingIOError):
            channel[1].recv(1)

    on_host(main())


async def test_what_cannot_be_sent_says_why_and_stays(channel):
    number = opened().detach()
    os.close(number)
    with pytest.raises(OSError, match=f"{number} is no open descriptor") as bad:
        await ringloop.send_handle(channel[0], number)
    assert bad.value.errno == errno.EBADF
    with socket.socket() as closed:
        pass
    with pytest.raises(ValueError, match="is closed"):
        await ringloop.send_handle(channel[0], closed)
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        for given in (near, transport.get_extra_info("socket")):
            with pytest.raises(ringloop.FdConflictError, match=r"used by transport.*send_handle"):
                await ringloop.send_handle(channel[0], given)
        with opened() as owned:
            unix, _ = await attach(channel[0])
            with pytest.raises(ringloop.FdConflictError, match="wanted by send_handle"):
                await ringloop.send_handle(channel[0], owned)
            await ringloop.detach(unix)
            for refused in (far, "x"):
                with pytest.raises(TypeError, match="Unix socket"):
                    await ringloop.send_handle(refused, owned)      # type: ignore[arg-type]
            channel[0].setblocking(True)
            with pytest.raises(ValueError, match="non-blocking"):
                await ringloop.send_handle(channel[0], owned)
            channel[0].setblocking(False)
            channel[1].close()
            with pytest.raises(BrokenPipeError):
                await ringloop.send_handle(channel[0], owned)
            channel[0].close()
            for call in (ringloop.send_handle(channel[0], owned), ringloop.recv_handle(channel[0])):
                with pytest.raises(ValueError, match="is closed"):
                    await call
            assert not owned.closed
        transport.abort()
        await protocol.lost


async def test_what_is_no_handle_is_refused_and_nothing_stays_open(channel):
    before = set(os.listdir("/proc/self/fd"))
    channel[0].send(b"x")
    with pytest.raises(OSError, match="without a descriptor.*b'x'"):
        await ringloop.recv_handle(channel[1])
    socket.send_fds(channel[0], [b"x"], [0, 1])
    with pytest.raises(OSError, match="more than one descriptor"):
        await ringloop.recv_handle(channel[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    socket.send_fds(channel[0], [b"x"], [0])
    free = next(number for number in range(10_000) if not is_open(number))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(OSError, match="may open no more") as full:
            await ringloop.recv_handle(channel[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert full.value.errno == errno.EMFILE
    assert set(os.listdir("/proc/self/fd")) == before
    channel[0].close()
    with pytest.raises(EOFError, match="closed"):
        await ringloop.recv_handle(channel[1])


async def test_the_standard_library_sends_and_takes_the_same(channel):
    socket.send_fds(channel[0], [b"x"], [0])
    with await ringloop.recv_handle(channel[1]) as owned:
        assert os.path.sameopenfile(0, owned.fileno())
    await ringloop.send_handle(channel[0], opened())
    channel[0].send(b"and more")                # not taken with the descriptor
    (fd,) = multiprocessing.reduction.recvfds(channel[1], 1)
    os.close(fd)
    assert channel[1].recv(100) == b"and more"


# ---- to another process

CHILD = """
import asyncio, socket, sys
import ringloop

class Upper(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.lost = transport, asyncio.get_running_loop().create_future()
    def data_received(self, data):
        self.transport.write(data.upper())
    def connection_lost(self, exc):
        self.lost.set_result(exc)

async def main():
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(False)
    loop = asyncio.get_running_loop()
    owned = await ringloop.recv_handle(channel)
    (owner,) = ringloop.fdinfo(owned).owners
    received = await loop.sock_recv(channel, 100)
    transport, protocol = await ringloop.attach(owned, Upper, received)
    print(owner.kind, ringloop.fdinfo(transport.get_extra_info("socket")).owners[0].kind)
    await protocol.lost
    channel.close()

asyncio.Runner(loop_factory=lambda: ringloop.new_event_loop(backend=sys.argv[2])).run(main())
"""


async def test_a_connection_goes_to_another_process(backend, channel):
    with tcp_pair() as (near, far):
        reader, writer = await _streams(near)
        far.sendall(b"hello\nworld ")
        assert await reader.readline() == b"hello\n"
        command = [sys.executable, "-c", CHILD, str(channel[1].fileno()), backend]
        with subprocess.Popen(command, pass_fds=[channel[1].fileno()], text=True,
                              stdout=subprocess.PIPE) as child:
            sock, received = await ringloop.detach(writer)
            assert received == b"world "
            await ringloop.send_handle(channel[0], sock)
            assert sock.fileno() == -1
            await asyncio.get_running_loop().sock_sendall(channel[0], received)
            far.sendall(b"again")
            far.shutdown(socket.SHUT_WR)
            assert await elsewhere(read_all, far) == b"WORLD AGAIN"
            said = await elsewhere(child.communicate)
        assert said[0] == "handle transport\n" and child.returncode == 0


async def _streams(sock: socket.socket) -> Any:
    sock.setblocking(False)
    return await asyncio.open_connection(sock=sock)
