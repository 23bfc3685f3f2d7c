"""add_reader and add_writer: level-triggered, collected on removal, clear about bad descriptors."""
from __future__ import annotations

import os
import socket
import weakref
from typing import Any, Iterator

import pytest


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    a.setblocking(False)
    b.setblocking(False)
    yield a, b
    a.close()
    b.close()


def turn(loop: Any, count: int = 1) -> None:
    for _ in range(count):
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_a_reader_is_called_as_long_as_data_is_unread(loop: Any, pair: Any) -> None:
    calls = 0

    def readable() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            pair[0].recv(100)
            loop.stop()

    loop.add_reader(pair[0], readable)
    pair[1].send(b"x")
    loop.run_forever()
    turn(loop, 5)
    assert calls == 3
    assert loop.remove_reader(pair[0]) is True
    assert loop.remove_reader(pair[0]) is False


def test_a_callback_that_watches_anew_while_it_is_freed_has_the_last_word(loop: Any,
                                                                          pair: Any) -> None:
    """It used to submit an operation twice, and to leak a handle."""
    seen: list[str] = []

    class Callback:
        def __call__(self) -> None:
            seen.append("first")

        def __del__(self) -> None:
            loop.add_reader(pair[0], note, "third")

    def note(word: str) -> None:
        seen.append(word)
        pair[0].recv(100)

    loop.add_reader(pair[0], Callback())
    loop.add_reader(pair[0], note, "second")
    pair[1].send(b"x")
    turn(loop, 3)
    assert seen == ["third"]
    assert loop.remove_reader(pair[0]) is True
    assert loop.remove_reader(pair[0]) is False
    assert loop._counters()["in_flight"] <= 1       # the loop's own


def test_reader_and_writer_of_one_descriptor_are_independent(loop: Any, pair: Any) -> None:
    seen: set[str] = set()

    def note(word: str) -> None:
        seen.add(word)
        if seen == {"read", "write"}:
            loop.stop()

    loop.add_reader(pair[0], note, "read")
    loop.add_writer(pair[0], note, "write")
    pair[1].send(b"x")
    loop.run_forever()
    assert loop.remove_writer(pair[0]) and loop.remove_reader(pair[0])


def test_adding_again_replaces_the_callback(loop: Any, pair: Any) -> None:
    seen: list[str] = []
    loop.add_reader(pair[0], seen.append, "old")
    loop.add_reader(pair[0], lambda: (seen.append("new"), loop.stop()))
    pair[1].send(b"x")
    loop.run_forever()
    assert seen == ["new"]
    loop.remove_reader(pair[0])


def test_a_callback_may_remove_and_close_its_own_descriptor(loop: Any) -> None:
    a, b = socket.socketpair()

    def readable() -> None:
        loop.remove_reader(a)
        a.close()
        loop.stop()

    loop.add_reader(a, readable)
    b.send(b"x")
    loop.run_forever()
    b.close()


def test_remove_reader_then_close_shows_the_peer_its_end_at_once(loop: Any) -> None:
    """An armed poll holds the file open: a bare close after a lazy removal sent no FIN."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    loop.add_reader(accepted, print)
    turn(loop)
    loop.remove_reader(accepted)
    accepted.close()
    client.settimeout(10)
    assert client.recv(1) == b""
    client.close()
    server.close()


def test_a_number_that_was_closed_and_reused_is_watched_afresh(loop: Any) -> None:
    a, b = socket.socketpair()
    number = a.fileno()
    loop.add_reader(number, print)
    turn(loop)
    c, d = socket.socketpair()
    os.dup2(c.fileno(), number)  # behind the loop's back
    loop.add_reader(number, loop.stop)
    d.send(b"x")
    loop.run_forever()
    loop.remove_reader(number)
    for s in (a, b, c, d):
        s.close()


def test_bad_descriptors_are_refused_at_once(loop: Any, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        loop.add_reader(-1, print)
    with pytest.raises(ValueError, match="Invalid file object"):
        loop.add_reader("text", print)
    with pytest.raises(TypeError, match="missing.*callback"):
        loop.add_reader(1)
    a, b = socket.socketpair()
    number = a.fileno()
    a.close()
    with pytest.raises(OSError):
        loop.add_reader(number, print)
    b.close()
    with open(tmp_path / "file", "w") as file:
        with pytest.raises(PermissionError, match="regular file"):
            loop.add_reader(file, print)


def test_removing_a_closed_descriptor_says_so_as_asyncio(loop: Any) -> None:
    a, b = socket.socketpair()
    with a, b:
        pass
    for closed in (-1, a):
        with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
            loop.remove_reader(closed)
        with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
            loop.remove_writer(closed)
    loop.close()
    assert loop.remove_reader(-1) is False and loop.remove_writer(-1) is False


def test_a_socket_that_was_closed_while_watched_can_be_removed(loop: Any, pair: Any) -> None:
    """anyio closes its socket and removes it then: asyncio finds it by the object."""
    near, far = pair
    seen: list[str] = []
    loop.add_reader(near, seen.append, "readable")
    loop.add_writer(near, seen.append, "writable")
    near.close()
    assert loop.remove_reader(near) is True and loop.remove_writer(near) is True
    for remove in (loop.remove_reader, loop.remove_writer):
        with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
            remove(near)
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert not seen and far.recv(1) == b""


def test_a_closed_socket_is_no_reason_to_forget_the_next_one_of_its_number(loop: Any) -> None:
    before, far = socket.socketpair()
    loop.add_reader(before, print)
    number = before.fileno()
    before.close()
    after, other = socket.socketpair()
    with far, after, other:
        assert after.fileno() == number
        loop.add_reader(after, loop.stop)
        with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
            loop.remove_reader(before)
        other.send(b"x")
        loop.run_forever()
        assert loop.remove_reader(after)


def test_a_watched_socket_is_freed_with_its_watch(loop: Any) -> None:
    near, far = socket.socketpair()
    gone = weakref.ref(near)
    with far:
        loop.add_reader(near, print)
        near.close()
        assert loop.remove_reader(near)
        del near
        assert gone() is None


def test_a_raising_reader_is_reported_and_stays(loop: Any, pair: Any) -> None:
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: (reports.append(context), loop.stop()))

    def fail() -> None:
        raise ZeroDivisionError

    loop.add_reader(pair[0], fail)
    pair[1].send(b"x")
    loop.run_forever()
    loop.run_forever()
    assert len(reports) == 2 and isinstance(reports[0]["exception"], ZeroDivisionError)
    loop.remove_reader(pair[0])


def test_keyboard_interrupt_in_a_reader_ends_the_run(loop: Any, pair: Any) -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    loop.add_reader(pair[0], leave)
    pair[1].send(b"x")
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.remove_reader(pair[0])
    turn(loop)


def test_hang_up_wakes_reader_and_writer(loop: Any) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        pass
    loop.add_writer(writing, loop.stop)
    turn(loop)
    os.close(reading)
    loop.run_forever()
    loop.remove_writer(writing)
    os.close(writing)


def test_closing_the_loop_drops_its_watches(loop: Any, pair: Any) -> None:
    loop.add_reader(pair[0], print)
    turn(loop)
    loop.close()
    assert loop.remove_reader(pair[0]) is False
