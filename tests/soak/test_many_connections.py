"""10,000 connections at once to one server: all are served, none costs much, nothing is left.

The clients are blocking sockets in a process of their own, told what to do line by line.
"""
from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import sys
from typing import Any, AsyncIterator, Iterator

import pytest

from harness import accounts
from harness.loops import Run
from soak.memory import anonymous_kib

CONNECTIONS = 10_000
ROOM = 200          # for descriptors beside the connections
IDLE_KIB = 4.0      # of anonymous memory a connection, ours and its protocol's and Python's

CLIENT = """
import resource, socket, sys
port, count, limit = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
connections = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(count)]
print("connected", flush=True)
sys.stdin.readline()
for number, each in enumerate(connections):
    each.sendall(b"%08d" % number)
for number, each in enumerate(connections):
    assert each.recv(8, socket.MSG_WAITALL) == b"%08d" % number
print("echoed", flush=True)
sys.stdin.readline()
for each in connections:
    each.close()
print("closed", flush=True)
"""


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """Raises this process's limit to the number that the test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + ROOM
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the hard limit of descriptors (ulimit -Hn) is {hard}, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Echo(asyncio.Protocol):
    made = lost = 0
    changed: asyncio.Event

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        Echo.made += 1
        Echo.changed.set()

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        Echo.lost += 1
        Echo.changed.set()

    @classmethod
    async def until(cls, name: str, count: int) -> None:
        while getattr(cls, name) < count:
            cls.changed.clear()
            await cls.changed.wait()


@contextlib.asynccontextmanager
async def clients(port: int, limit: int) -> AsyncIterator[Any]:
    """say(line): sends it, if there is one, and returns the answer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, str(port), str(CONNECTIONS), str(limit),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    async def say(line: str | None = None) -> str:
        if line is not None:
            process.stdin.write(f"{line}\n".encode())
        return (await process.stdout.readline()).decode().strip()

    try:
        yield say
        await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0


@pytest.mark.time_limit(300)
def test_10_000_connections_are_served_at_once_and_leave_nothing(
        run: Run, many_descriptors: int, record_property: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        Echo.made = Echo.lost = 0
        Echo.changed = asyncio.Event()
        server = await loop.create_server(Echo, "127.0.0.1", 0, backlog=4_096)
        gc.collect()
        before, first = accounts.native()["transports"], anonymous_kib()
        async with clients(server.sockets[0].getsockname()[1], many_descriptors) as say:
            assert await say() == "connected"
            await Echo.until("made", CONNECTIONS)
            idle = (anonymous_kib() - first) / CONNECTIONS
            assert await say("echo") == "echoed"
            gc.collect()
            served = (anonymous_kib() - first) / CONNECTIONS
            assert accounts.native()["transports"] - before >= CONNECTIONS
            assert loop._counters()["leased_buffers"] == 0      # type: ignore[attr-defined]
            assert await say("close") == "closed"
            await Echo.until("lost", CONNECTIONS)
        server.close()
        await server.wait_closed()
        record_property("kib_a_connection", f"{idle:.2f} idle, {served:.2f} behind an echo")
        print(f"KiB a connection: {idle:.2f} idle, {served:.2f} behind an echo")
        assert max(idle, served) < IDLE_KIB
        gc.collect()
        assert accounts.native()["transports"] == before
        assert Echo.made == CONNECTIONS

    run(main())
