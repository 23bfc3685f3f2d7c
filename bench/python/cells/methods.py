"""The ways to measure a cell. Each has measure(rig, subject), and says what it will ask of the rig:
job(subject) of worker.py, or a service of server.py.
"""
from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
import socket
import sys
import time
from pathlib import Path

from cells import programs
from cells.model import CPU, P50, P99, WALL, Figures, Unable
from cells.rig import Rig, Server, costs, run
from common import placing


@functools.cache
def loop_of(subject: str) -> str:
    """The loop under which a subject that is none is measured."""
    if subject == "executor":
        return "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"
    return "asyncio" if subject == "blocking" else subject


class Method:
    service: str | None = None

    def job(self, subject: str) -> str | None:
        return None

    def measure(self, rig: Rig, subject: str) -> Figures:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Job(Method):
    """A job of worker.py; another one for the subjects named in `instead`."""
    name: str
    instead: tuple[tuple[str, str], ...] = ()

    def job(self, subject: str) -> str:
        return dict(self.instead).get(subject, self.name)

    def measure(self, rig: Rig, subject: str) -> Figures:
        return rig.job(loop_of(subject), self.job(subject))


class Load(Method):
    """The native client against one service; `options` are the client's."""

    def __init__(self, service: str, **options: object) -> None:
        self.service: str = service
        self.options = options

    def measure(self, rig: Rig, subject: str) -> Figures:
        with rig.server(subject, self.service) as server:
            return costs(rig.load(server, self.service, **self._options(rig)))

    def _options(self, rig: Rig) -> dict[str, object]:
        if self.service != "sendfile":
            return self.options
        return {**self.options, "answer_file": rig.folder / "file"}


class Growth(Load):
    """CPU per request at more connections, over that at the first number of them."""

    def measure(self, rig: Rig, subject: str) -> Figures:
        found: Figures = {}
        with rig.server(subject, self.service) as server:
            for count in (100, 1000, 10_000):
                found[f"cpu_at_{count}_s"] = costs(
                    rig.load(server, self.service, connections=count, **self.options))[CPU]
        few = found["cpu_at_100_s"]
        return {CPU: few, "growth to 1,000": found["cpu_at_1000_s"] / few,
                "growth to 10,000": found["cpu_at_10000_s"] / few}


class Fairness(Load):
    """p99 of 99 quiet connections beside one that sends flat out, over theirs alone."""

    def measure(self, rig: Rig, subject: str) -> Figures:
        quiet = {"connections": 99, "per_second": 2000}
        with programs.normal_priority(), rig.server(subject, self.service) as server:
            alone = rig.load(server, self.service, **quiet)
            beside = rig.load(server, self.service, flood=1, **quiet)
        if beside["flood_bytes"] == 0 and not rig.quick:
            raise Unable("nothing of the flood came back")
        return {P99: beside["p99_us"] / 1e6, "p99_alone_s": alone["p99_us"] / 1e6,
                "p99 beside": beside["p99_us"] / alone["p99_us"]}


class Http(Load):
    """GET / by the keep-alive HTTP client, which checks every body."""

    def measure(self, rig: Rig, subject: str) -> Figures:
        from cells.web import BODY

        (rig.folder / "request").write_bytes(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        (rig.folder / "body").write_bytes(BODY)
        (rig.folder / "plan").write_text("1 hello request body\n")
        with rig.server(subject, self.service) as server:
            self._drive(rig, server, rig.seconds / 4)
            before, seconds = placing.cpu_seconds(server.pid), rig.seconds
            while (found := self._drive(rig, server, seconds))["requests"] == 0:
                if seconds > 10:
                    raise Unable("no request was answered")
                seconds *= 4
            cpu = placing.cpu_seconds(server.pid) - before
        return {CPU: cpu / found["requests"], WALL: seconds / found["requests"],
                P50: found["p50_us"] / 1e6, P99: found["p99_us"] / 1e6}

    def _drive(self, rig: Rig, server: Server, seconds: float) -> dict[str, float]:
        connections = rig.connections(int(str(self.options["connections"])))
        found: dict[str, float] = json.loads(run(
            [programs.http_client(), str(rig.folder / "plan"), server.address(self.service),
             str(connections), "0", str(seconds)], core=1))
        return found


class IdleMemory(Load):
    """Resident memory of a server, by 2,000 connections that do nothing after 200 others."""

    def measure(self, rig: Rig, subject: str) -> Figures:
        first, more = (10, 20) if rig.quick else (200, 2000)
        held: list[socket.socket] = []
        with rig.server(subject, self.service) as server:
            port = int(server.address(self.service))
            try:
                _connect(held, port, first)
                before = _resident_kib(server.pid)
                _connect(held, port, more)
                time.sleep(0 if rig.quick else 0.1)
                grown = _resident_kib(server.pid) - before
            finally:
                for each in held:
                    each.close()
        return {"idle_kib": grown / more}


def _connect(held: list[socket.socket], port: int, count: int) -> None:
    """Each 50th and the last show that all before them were accepted and are served."""
    for number in range(count):
        held.append(made := socket.create_connection(("127.0.0.1", port), timeout=5))
        if number % 50 == 0 or number == count - 1:
            made.sendall(b"bytes")
            if made.recv(100) != b"bytes":
                raise Unable("a wrong echo")


def _resident_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise Unable("the server ended")
    return int(found[1])


class StartUp(Method):
    """From a bare interpreter to the first coroutine that has run: the import and the first loop.
    """
    CODE = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import {name}
loop = {name}.new_event_loop()
async def first():
    return 42
assert loop.run_until_complete(first()) == 42
print(time.process_time() - cpu, time.perf_counter() - wall)
loop.close()
"""

    def measure(self, rig: Rig, subject: str) -> Figures:
        cpu, wall = run([sys.executable, "-c", self.CODE.format(name=subject)], core=0).split()
        return {CPU: float(cpu), WALL: float(wall)}
