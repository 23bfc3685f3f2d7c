"""Forks inside a running loop that has a server, a connection and armed receives. The first child
reports what it can and cannot do; prints the report as JSON.   fork.py BACKEND"""
import asyncio
import json
import os
import sys
import warnings
from collections.abc import Callable

import ringloop

warnings.simplefilter("ignore", DeprecationWarning)      # fork with threads: meant here
BACKEND = sys.argv[1]


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)      # type: ignore[attr-defined]


async def nothing() -> None:
    pass


def outcome(call: Callable[[], object]) -> str:
    try:
        return f"returned {call()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


async def own_echo() -> str:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"own")
    answer = await reader.readexactly(3)
    writer.close()
    server.close()
    return "echoed" if answer == b"own" else "wrong"


def child(loop: asyncio.AbstractEventLoop) -> dict[str, object]:
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            pass
    coroutine = nothing()
    calls = {"call_soon": outcome(lambda: loop.call_soon(print)),
             "call_later": outcome(lambda: loop.call_later(1, print)),
             "call_soon_threadsafe": outcome(lambda: loop.call_soon_threadsafe(print)),
             "run_forever": outcome(loop.run_forever),
             "create_task": outcome(lambda: loop.create_task(coroutine)),
             "add_reader": outcome(lambda: loop.add_reader(0, print))}
    coroutine.close()
    own = outcome(lambda: ringloop.run(own_echo()))
    return {"descriptors": names, "calls": calls, "own loop": own.removeprefix("returned ")[1:-1],
            "close": outcome(loop.close).replace("returned None", "closed")}


async def parent() -> dict[str, object]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    echoes = 0
    report: dict[str, object] = {}
    for number in range(50):
        writer.write(b"before")
        echoes += await reader.readexactly(6) == b"before"
        read, write = os.pipe()
        writer.write(b"across")         # in flight over the fork
        pid = os.fork()
        if pid == 0:
            os.close(read)
            text = json.dumps(child(loop)) if number == 0 else ""
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        echoes += await reader.readexactly(6) == b"across"
        with open(read, encoding="utf-8") as pipe:
            text = pipe.read()
        report = report or json.loads(text)
        assert os.waitpid(pid, 0)[1] == 0
    writer.close()
    server.close()
    report["echoes of the parent"] = echoes
    return report


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=lambda: ringloop.new_event_loop(backend=BACKEND)) as runner:
        print(json.dumps(runner.run(parent())))
