"""Who has a descriptor: fdinfo(), duplicates, epoll sets of others, and the error of who comes
second."""
from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from typing import Any, Iterator

import pytest

import ringloop
from harness.tcp import Recorder, attach, tcp_pair, turns
from ringloop import _native

TOLD = [
    pytest.param(True, id="kcmp", marks=pytest.mark.skipif(
        _native.same_file(0, 0) is None, reason="kcmp() is forbidden here")),
    pytest.param(False, id="inode"),
]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)
    with a, b:
        yield a, b


def the_owner(fd: Any) -> ringloop._owners.FdOwner:
    (owner,) = ringloop.fdinfo(fd).owners
    return owner


# ---- fdinfo

async def test_a_transport_is_named_with_its_state_loop_and_thread():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        owner = the_owner(near)
        assert (owner.kind, owner.state) == ("transport", "reading")
        assert owner.loop is asyncio.get_running_loop()
        assert owner.thread == threading.get_ident()
        assert "SocketTransport" in owner.name
        transport.pause_reading()
        assert the_owner(near).state == "paused"
        transport.close()
        assert the_owner(near).state == "closing"
        await protocol.lost


async def test_each_kind_of_owner_is_named(pair, tmp_path):
    loop = asyncio.get_running_loop()
    loop.add_reader(pair[0], print)
    loop.add_writer(pair[0], print)
    assert {owner.kind for owner in ringloop.fdinfo(pair[0]).owners} == {"reader", "writer"}
    loop.remove_reader(pair[0])
    loop.remove_writer(pair[0])
    call = asyncio.ensure_future(loop.sock_recv(pair[0], 1))
    await asyncio.sleep(0)
    assert (the_owner(pair[0]).kind, the_owner(pair[0]).state) == ("socket call", "sock_recv")
    call.cancel()
    await asyncio.wait({call})
    assert ringloop.fdinfo(pair[0]).owners == ()
    async with await asyncio.start_server(print, "127.0.0.1", 0) as server:
        assert (the_owner(server.sockets[0]).kind, the_owner(server.sockets[0]).state) == \
            ("server", "accepting")
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
    assert the_owner(transport.get_extra_info("socket")).kind == "datagram transport"
    transport.abort()
    await asyncio.sleep(0)
    async with ringloop.open(tmp_path / "file", "wb") as file:
        assert (the_owner(file.fileno()).kind, the_owner(file.fileno()).loop) == ("file", None)
    with ringloop.OwnedFd(os.dup(pair[0].fileno())) as owned:
        assert the_owner(owned).kind == "handle"
    rings = [fd for fd, kind, _, whose, _ in _native.owners(-1) if kind == "ring" and whose is loop]
    assert [the_owner(fd).kind for fd in rings] == ["ring"]


def test_a_native_task_that_waits_is_an_owner(on_host, pair):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        waiting = _native.NativeWait(loop, pair[0].fileno())
        assert (the_owner(pair[0]).kind, the_owner(pair[0]).state) == ("native task", "waits")
        assert the_owner(pair[0]).loop is loop
        with pytest.raises(ringloop.FdConflictError, match="used by native task"):
            await ringloop.send_handle(pair[1], pair[0])
        waiting.close()
        assert ringloop.fdinfo(pair[0]).owners == ()

    on_host(main())


def test_the_loop_of_another_thread_is_named_with_that_thread(run, pair):
    watching, done = threading.Event(), threading.Event()
    found: list[int] = []

    async def main() -> None:
        asyncio.get_running_loop().add_reader(pair[0], print)
        found.append(threading.get_ident())
        watching.set()
        await asyncio.get_running_loop().run_in_executor(None, done.wait)
        asyncio.get_running_loop().remove_reader(pair[0])

    thread = threading.Thread(target=run, args=(main(),))
    thread.start()
    watching.wait()
    owner = the_owner(pair[0])
    done.set()
    thread.join()
    assert (owner.kind, owner.thread) == ("reader", found[0])
    assert ringloop.fdinfo(pair[0]).owners == ()


@pytest.mark.parametrize("told", TOLD)
def test_another_descriptor_of_the_same_file_is_named(loop, pair, monkeypatch, told):
    if not told:
        monkeypatch.setattr(_native, "same_file", lambda fd, other: None)
    loop.add_reader(pair[0], print)
    with socket.socket(fileno=os.dup(pair[0].fileno())) as copy:
        (same,) = ringloop.fdinfo(copy).duplicates
        assert (same.fd, same.owners[0].kind, same.certain) == (pair[0].fileno(), "reader", told)
        assert ringloop.fdinfo(pair[1]).duplicates == ()
        assert ringloop.fdinfo(pair[0]).duplicates == ()
    loop.remove_reader(pair[0])


def test_text_says_it_all(loop, pair):
    loop.add_reader(pair[0], print)
    with select.epoll() as other, socket.socket(fileno=os.dup(pair[0].fileno())) as copy:
        other.register(copy, select.EPOLLIN)
        text = str(ringloop.fdinfo(copy))
        assert f"descriptor {copy.fileno()}: socket:[" in text
        assert "nobody of ringloop's has it" in text
        assert f"the same file is descriptor {pair[0].fileno()}: reader <" in text
        assert f"epoll set {other.fileno()}, another library's, watches it as descriptor " in text
    loop.remove_reader(pair[0])


def test_what_is_no_descriptor_is_refused(pair):
    number = os.dup(pair[0].fileno())
    os.close(number)
    with pytest.raises(OSError, match=f"{number} is no open descriptor"):
        ringloop.fdinfo(number)
    with pytest.raises(TypeError, match="an object with a fileno"):
        ringloop.fdinfo("seven")


# ---- epoll sets of others

@pytest.mark.parametrize("told", TOLD)
def test_a_foreign_epoll_set_is_found_and_named(loop, pair, monkeypatch, told):
    if not told:
        monkeypatch.setattr(_native, "same_as_epoll_entry", lambda *_: None)
    assert ringloop.compat.detect_foreign_epoll() == []
    with select.epoll() as other:
        other.register(pair[0], select.EPOLLIN)
        assert ringloop.compat.detect_foreign_epoll() == []     # nobody of ours has it yet
        loop.add_reader(pair[0], print)
        (found,) = ringloop.compat.detect_foreign_epoll()
        assert (found.fd, found.entry, found.epoll_fd) == \
            (pair[0].fileno(), pair[0].fileno(), other.fileno())
        assert found.events & select.EPOLLIN
        assert found.owners[0].kind == "reader"
        assert f"watched by epoll set {other.fileno()}" in str(found)
        loop.remove_reader(pair[0])
        assert ringloop.compat.detect_foreign_epoll() == []


def test_an_entry_of_a_duplicate_that_was_closed_is_found(loop, pair):
    """epoll keeps it, and a look at the number alone would miss it or name a stranger."""
    loop.add_reader(pair[0], print)
    with select.epoll() as other, open(os.devnull, encoding="ascii") as stranger:
        copy = os.dup(pair[0].fileno())
        other.register(copy, select.EPOLLIN)
        os.close(copy)
        os.dup2(stranger.fileno(), copy)
        found = ringloop.compat.detect_foreign_epoll()
        assert [(each.fd, each.entry) for each in found] == [(pair[0].fileno(), copy)]
        assert ringloop.fdinfo(copy).epolls == ()
        os.close(copy)
    loop.remove_reader(pair[0])


def test_our_own_rings_are_not_foreign(on_host, tmp_path):
    """Also that of a guest, which asyncio's epoll set watches, and the epoll backend's sets."""
    os.mkfifo(tmp_path / "fifo")

    async def main() -> None:
        end = os.open(tmp_path / "fifo", os.O_RDWR)
        async with ringloop.open(tmp_path / "fifo", "rb", buffering=0) as file:
            reading = asyncio.ensure_future(file.read(1))
            await asyncio.sleep(0)
            assert ringloop.compat.detect_foreign_epoll() == []
            os.write(end, b"x")
            assert await reading == b"x"
        os.close(end)

    on_host(main())


# ---- who comes second

async def test_the_error_names_both_owners():
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        loop: Any = asyncio.get_running_loop()
        for call, name in (
            (lambda: loop.add_reader(near, print), "add_reader()"),
            (lambda: loop.add_writer(near.fileno(), print), "add_writer()"),
            (lambda: loop.remove_reader(near), "remove_reader()"),
            (lambda: loop.sock_recv(near, 1), "a sock_ call"),
            (lambda: loop._make_socket_transport(near, Recorder()), "a new transport"),
        ):
            with pytest.raises(ringloop.FdConflictError, match="is used by transport") as caught:
                call()
            assert isinstance(caught.value, RuntimeError)       # as asyncio's
            assert caught.value.fd == near.fileno()
            assert caught.value.held_by == f"transport {transport!r}"
            assert caught.value.wanted_by == name and name in str(caught.value)
        transport.abort()
        await protocol.lost


async def test_a_descriptor_of_another_loops_transport_is_refused(run):
    with tcp_pair() as (near, far):
        transport, protocol = await attach(near)
        other = run.new_loop()
        for call in (
            lambda: other.add_reader(near, print),
            lambda: other._make_socket_transport(near, Recorder()),
        ):
            with pytest.raises(ringloop.FdConflictError, match="another loop's transport"):
                call()
        transport.abort()
        await protocol.lost
        other.close()


@pytest.mark.parametrize("polled", [False, True], ids=["at once", "polled"])
async def test_a_watched_duplicate_that_is_closed_is_told_and_goes(pair, polled):
    """libuv aborts. The other watch is woken once for each byte."""
    loop = asyncio.get_running_loop()
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    woken = 0

    def readable() -> None:
        nonlocal woken
        woken += len(pair[0].recv(1))

    copy = os.dup(pair[0].fileno())
    loop.add_reader(pair[0], readable)
    loop.add_reader(copy, lambda: None)
    if polled:
        await turns()
    os.close(copy)
    for sent in range(1, 4):
        pair[1].send(b"x")
        while woken < sent:
            await turns(1)
    await turns()
    assert woken == 3
    assert [message.partition(";")[0] for message in told] == \
        ["a watched descriptor can no longer be polled"]
    assert not loop.remove_reader(copy) and loop.remove_reader(pair[0])
