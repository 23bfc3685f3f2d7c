"""examples/cpp/uv_echo.cpp: a libuv server as guest of our ring."""
from __future__ import annotations

import socket

import pytest

from examples.running import FOLDER, Starter, read_all, start as start

pytestmark = pytest.mark.skipif(not (FOLDER / "uv_echo").exists(),
                                reason="built without libuv (apt-get install libuv1-dev)")


def test_what_is_sent_comes_back(start: Starter) -> None:
    server = start("uv_echo")
    with server.connect() as one, server.connect() as other:
        for peer in (one, other, one):
            peer.sendall(b"x" * 10_000)
            assert peer.recv(10_000, socket.MSG_WAITALL) == b"x" * 10_000
    assert server.stop() == ""


def test_an_interrupt_closes_what_is_open(start: Starter) -> None:
    server = start("uv_echo")
    with server.connect() as peer:
        peer.sendall(b"x")
        assert peer.recv(1) == b"x"
        assert server.stop() == ""
        assert read_all(peer) == b""
