"""examples/cpp/asio_files.cpp: an Asio program whose files a hosted task reads."""
from __future__ import annotations

from pathlib import Path

import pytest

from examples.running import FOLDER, Starter, read_all, start as start

pytestmark = pytest.mark.skipif(not (FOLDER / "asio_files").exists(),
                                reason="built without Asio (apt-get install libasio-dev)")


def test_files_are_served_and_a_missing_one_ends_its_connection_only(
        start: Starter, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 100_000)
    server = start("asio_files", tmp_path)
    for name, wanted in ((b"one", b"1" * 100_000), (b"none", b""), (b"one", b"1" * 100_000)):
        with server.connect() as peer:
            peer.sendall(name + b"\n")
            assert read_all(peer) == wanted
    assert "No such file or directory" in server.stop()


def test_an_interrupt_ends_it_while_clients_are_there(
        start: Starter, tmp_path: Path) -> None:
    server = start("asio_files", tmp_path)
    with server.connect() as peer:
        peer.sendall(b"unfini")
        server.stop()
        assert read_all(peer) == b""
