"""examples/host: programs that host Python, built as a project of its own against the package."""
from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Iterator

import pytest

from examples import building
from harness.commands import ROOT

pytestmark = [*building.AGAINST_THE_PACKAGE, building.HOSTING_PYTHON]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return building.build("host", tmp_path_factory.mktemp("host"))


class Program:
    def __init__(self, command: list[str], backend: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.process = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**kept, "RINGLOOP_BACKEND": backend})
        words = self.line().split(":")
        assert words[0] == "listening on 127.0.0.1", self.process.communicate()
        self.port = int(words[1])

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, *lines: str) -> list[str]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as peer, \
                peer.makefile("rw") as file:
            answers = []
            for line in lines:
                file.write(line + "\n")
                file.flush()
                answers.append(file.readline().strip())
            return answers

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=30)
        assert (self.process.returncode, said) == (0, "")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/page" else 404)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 1000)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_native_service_awaits_aiohttp(programs: Path, backend: str, site: str) -> None:
    pytest.importorskip("aiohttp")
    program = Program([str(programs / "fetch"), "127.0.0.1", "0"], backend)
    try:
        answers = program.ask(site + "/page", site + "/none", "http://127.0.0.1:1/", "nothing")
        assert answers[:2] == ["200 1000", "404 1000"]
        assert answers[2] == "failed: aiohttp.client_exceptions.ClientConnectorError"
        assert answers[3].startswith("failed: aiohttp.client_exceptions.")
        program.stop()
    finally:
        program.kill()


def test_handlers_are_changed_while_the_server_runs(programs: Path, backend: str,
                                                    tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"

    def change(text: str) -> str:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(file)
        return program.line()

    file.write_text((ROOT / "examples" / "host" / "scripts" / "handlers.py").read_text())
    program = Program([str(programs / "handlers"), "127.0.0.1", "0", str(tmp_path)], backend)
    try:
        assert program.ask("one", "two") == ["ONE", "TWO"]
        assert change("async def handle(line): return line[::-1]\n") == "loaded"
        assert program.ask("one") == ["eno"]
        assert change("async def handle(line) return 1\n").startswith("kept the old one: Syntax")
        assert change("x = 1\n") == "kept the old one: it has no handle()"
        assert program.ask("one") == ["eno"]
        assert change("async def handle(line): return {}[line]\n") == "loaded"
        assert program.ask("key") == ["failed: KeyError: 'key'"]
        program.stop()
    finally:
        program.kill()
