"""An example of examples/cpp as a process, on the ring or, with io_uring denied, on epoll."""
from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from harness.commands import ROOT

FOLDER = Path(os.environ["RINGLOOP_BUILD"]) / "examples" / "cpp"
LIMIT_S = 30


def command(backend: str, name: str, *arguments: object) -> list[str]:
    words = [str(FOLDER / name), *map(str, arguments)]
    if backend == "uring":
        return words
    launch = ROOT / "tests" / "faults" / "launch.py"
    return [sys.executable, str(launch), "--deny-uring", "EPERM", "--", *words]


class Server:
    """Runs until stop(); `port` is where it listens."""

    def __init__(self, backend: str, name: str, *arguments: object) -> None:
        self._process = subprocess.Popen(command(backend, name, *arguments), text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if found is None:
            self._process.kill()
            raise AssertionError(f"{name}: {line}{self._process.communicate()[1]}")
        self.port = int(found[1])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    def stop(self) -> str:
        """SIGINT ends it cleanly, whatever it is doing. What it wrote to stderr."""
        self._process.send_signal(signal.SIGINT)
        said = self._process.communicate(timeout=LIMIT_S)[1]
        assert self._process.returncode == 0, said
        return said

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class Starter:
    """Makes servers, and sees to it that none is left."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._made: list[Server] = []

    def __call__(self, name: str, *arguments: object) -> Server:
        self._made.append(Server(self._backend, name, *arguments))
        return self._made[-1]

    def end(self) -> None:
        for server in self._made:
            server.kill()


@pytest.fixture
def start(backend: str) -> Iterator[Starter]:
    starter = Starter(backend)
    yield starter
    starter.end()


def read_all(stream: socket.socket) -> bytes:
    pieces = []
    while piece := stream.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)
