"""examples/cpp/forward.cpp: bytes both ways, each direction ending by itself."""
from __future__ import annotations

import hashlib
import random
import socket
import threading

import pytest

from examples.running import Server, Starter, read_all, start as start


@pytest.fixture
def target() -> socket.socket:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        yield listener


@pytest.fixture
def server(start: Starter, target: socket.socket) -> Server:
    return start("forward", "127.0.0.1", 0, "localhost", target.getsockname()[1])


def accept(target: socket.socket) -> socket.socket:
    made = target.accept()[0]
    made.settimeout(30)
    return made


def test_an_end_of_one_direction_leaves_the_other_open(server: Server,
                                                       target: socket.socket) -> None:
    with server.connect() as client, accept(target) as behind:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert read_all(behind) == b"question"
        behind.sendall(b"answer")
        assert client.recv(6, socket.MSG_WAITALL) == b"answer"
        behind.sendall(b", and more")
        behind.close()
        assert read_all(client) == b", and more"
    assert server.stop() == ""


def test_much_goes_through_both_ways_at_once_unchanged(server: Server,
                                                       target: socket.socket) -> None:
    data = random.Random(1).randbytes(8 << 20)
    with server.connect() as client, accept(target) as behind:
        def echo() -> None:
            while piece := behind.recv(65536):
                behind.sendall(piece)
            behind.shutdown(socket.SHUT_WR)
        threads = [threading.Thread(target=echo), threading.Thread(target=client.sendall,
                                                                   args=(data,))]
        for thread in threads:
            thread.start()
        got = hashlib.sha256()
        left = len(data)
        while left:
            piece = client.recv(65536)
            got.update(piece)
            left -= len(piece)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        for thread in threads:
            thread.join()
    assert got.digest() == hashlib.sha256(data).digest()


def test_a_target_that_is_not_there_costs_the_client_its_connection_alone(
        server: Server, target: socket.socket) -> None:
    port = target.getsockname()[1]
    target.close()
    with server.connect() as client:
        assert client.recv(1) == b""
    with socket.create_server(("127.0.0.1", port)) as again:
        again.settimeout(30)
        with server.connect() as client, accept(again) as behind:
            client.sendall(b"x")
            assert behind.recv(1) == b"x"
    assert "refused" in server.stop()
