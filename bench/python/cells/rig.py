"""Running the programs that a cell needs, and reading what they say.

A fresh process for each measurement. In quick mode, which only shows that all cells still work, one
process a loop serves all of them.
"""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, IO

from cells import programs
from cells.model import CPU, P50, P99, WALL, Figures, Unable

HERE = Path(__file__).parent
FILE_BYTES = 64 << 20
LIMIT_S, START_LIMIT_S = 120.0, 30.0
QUICK_SCALE, QUICK_SECONDS, QUICK_CONNECTIONS = 0.002, 0.02, 20


@dataclasses.dataclass
class Server:
    pid: int
    addresses: dict[str, dict[str, str]]    # service: {"address"} or {"failed"}
    process: subprocess.Popen[str]
    errors: IO[bytes]

    def address(self, service: str) -> str:
        found = self.addresses[service]
        if "failed" in found:
            raise Unable(found["failed"])
        return found["address"]

    def said(self) -> str:
        self.errors.seek(0)
        return programs.last_line(self.errors.read().decode(errors="replace"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()


class Rig:
    """Use it as a context: it ends what it has started."""

    def __init__(self, seconds: float, quick: bool, jobs: dict[str, set[str]],
                 services: set[str]) -> None:
        """`jobs` of each loop and `services`: all that the chosen cells will ask for."""
        self.seconds = QUICK_SECONDS if quick else seconds
        self.scale = QUICK_SCALE if quick else 1.0
        self.quick = quick
        self._jobs, self._services = jobs, services
        self._done: dict[str, dict[str, dict[str, Any]]] = {}       # quick: by loop, by job
        self._servers: dict[str, Server] = {}                       # quick: by loop

    def __enter__(self) -> Rig:
        self._folder = tempfile.TemporaryDirectory(prefix="ringloop-bench-")
        self.folder = Path(self._folder.name)
        _make_certificate(self.folder)
        (self.folder / "file").write_bytes(os.urandom(round(FILE_BYTES * self.scale)))
        return self

    def __exit__(self, *why: object) -> None:
        for server in self._servers.values():
            server.end()
        self._folder.cleanup()

    def job(self, loop: str, job: str) -> Figures:
        """A job of worker.py."""
        if self.quick and loop not in self._done:
            self._done[loop] = self._work(loop, sorted(self._jobs[loop]))
        found = self._done[loop][job] if self.quick else self._work(loop, [job])[job]
        if "failed" in found:
            raise Unable(found["failed"])
        return found

    def _work(self, loop: str, jobs: list[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(run(
            [sys.executable, str(HERE / "worker.py"), loop, str(self.scale), *jobs]))
        return found

    @contextlib.contextmanager
    def server(self, loop: str, service: str) -> Iterator[Server]:
        """`service` on a loop in a process of its own, on core 0."""
        if self.quick:
            if loop not in self._servers:
                self._servers[loop] = self._serve(loop, sorted(self._services))
            yield self._servers[loop]
            return
        server = self._serve(loop, [service])
        try:
            yield server
        finally:
            server.end()

    def _serve(self, loop: str, services: list[str]) -> Server:
        errors = tempfile.TemporaryFile()
        process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), loop, str(self.folder), *services],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        server = Server(process.pid, {}, process, errors)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_LIMIT_S)
        line = process.stdout.readline() if ready else ""
        if not line:
            said = server.said()
            server.end()
            raise Unable(f"the server did not start: {said}")
        server.addresses = json.loads(line)
        return server

    def load(self, server: Server, service: str, **options: object) -> dict[str, float]:
        """One run of the native client against a service; what it has printed."""
        wanted = {"address": server.address(service), "server_pid": server.pid,
                  "seconds": self.seconds, "warm_seconds": self.seconds / 4, **options}
        wanted["connections"] = self.connections(int(str(options.get("connections", 1))))
        words = [f"{key}={value}" for key, value in wanted.items()]
        try:
            found: dict[str, float] = json.loads(run([programs.load_client(), *words], core=1))
        except Unable as why:
            state = server.process.poll()
            ended = "" if state is None else f"; the server ended with {state}: {server.said()}"
            raise Unable(f"{why}{ended}") from None
        return found

    def connections(self, count: int) -> int:
        return min(count, QUICK_CONNECTIONS) if self.quick else count


def costs(outcome: dict[str, float]) -> Figures:
    """The figures of a run of the native client, per answer."""
    answers = outcome["answers"]
    return {CPU: outcome["server_cpu_seconds"] / answers, WALL: outcome["seconds"] / answers,
            P50: outcome["p50_us"] / 1e6, P99: outcome["p99_us"] / 1e6}


def run(command: list[str], core: int | None = None) -> str:
    """Its output; Unable, with the last thing that it said, if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              preexec_fn=None if core is None else programs.pinned(core))
    except subprocess.TimeoutExpired:
        raise Unable(f"no end after {LIMIT_S:g} seconds") from None
    if done.returncode != 0:
        raise Unable(f"{programs.last_line(done.stderr)} (status {done.returncode})")
    return done.stdout


def _make_certificate(folder: Path) -> None:
    run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem"),
         "-days", "30", "-subj", "/CN=localhost"])
