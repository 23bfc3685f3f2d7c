"""examples/cpp/chat.cpp: everybody hears every line; who does not listen is dropped."""
from __future__ import annotations

import socket

from examples.running import Starter, read_all, start as start

LINE_MAX = 4096


def name(stream: socket.socket) -> bytes:
    host, port = stream.getsockname()
    return f"{host}:{port}".encode()


def read_line(stream: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = stream.recv(1)
        assert piece, line
        line += piece
    return line


def join(server: Starter, *others: socket.socket) -> None:
    """Waits until all of them are in the room: they hear a line of each."""
    for each in others:     # who is not in it yet hears of nobody: first of oneself, then of others
        each.sendall(b"here\n")
        while read_line(each) != name(each) + b": here\n":
            pass
    for speaker in others:
        speaker.sendall(b"here\n")
        for each in others:
            line = read_line(each)
            while line != name(speaker) + b": here\n":
                line = read_line(each)


def test_a_line_goes_to_everybody_with_its_sender(start: Starter) -> None:
    server = start("chat", "127.0.0.1", 0)
    with server.connect() as one, server.connect() as two:
        join(start, one, two)
        one.sendall(b"hel")
        one.sendall(b"lo\nand more\nrest")
        for each in (one, two):
            assert read_line(each) == name(one) + b": hello\n"
            assert read_line(each) == name(one) + b": and more\n"
        one.shutdown(socket.SHUT_WR)
        assert read_all(one) == b""
        two.sendall(b"alone\n")
        assert read_line(two) == name(two) + b": alone\n"
        assert server.stop() == ""      # also with a client that is still there
        assert read_all(two) == b""


def test_a_reader_that_is_too_slow_is_dropped_and_the_others_hear_all(start: Starter) -> None:
    server = start("chat", "127.0.0.1", 0)
    with socket.socket() as slow, server.connect() as good:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", server.port))
        join(start, slow, good)
        line = b"x" * 4000 + b"\n"
        lines = 4000        # 16 MB: more than the kernel keeps for one connection, and 256 lines
        heard = name(good) + b": " + line
        for _ in range(lines):
            good.sendall(line)
            assert good.recv(len(heard), socket.MSG_WAITALL) == heard
        try:
            assert len(read_all(slow)) < lines * len(heard)
        except ConnectionResetError:
            pass
        assert "dropped " + name(slow).decode() in server.stop()


def test_a_line_without_end_costs_its_sender_the_connection_alone(start: Starter) -> None:
    server = start("chat", "127.0.0.1", 0)
    with server.connect() as endless, server.connect() as other:
        join(start, endless, other)
        endless.sendall(b"x" * (LINE_MAX + 1))
        assert read_all(endless) == b""
        other.sendall(b"still here\n")
        assert read_line(other) == name(other) + b": still here\n"
        assert "a line is too long" in server.stop()
