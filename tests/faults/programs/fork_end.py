"""Forks inside a running loop that has tasks, a generator, an executor and a connection open; the
child ends in one of several ways. Prints the child's status and what it said, as JSON.
fork_end.py BACKEND WAY"""
import asyncio
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import AsyncIterator

import ringloop

warnings.simplefilter("ignore", DeprecationWarning)      # fork with threads: meant here
BACKEND, WAY = sys.argv[1:]
PARENT = os.getpid()


def fork() -> int:
    """0 in the child; the parent waits for it, and returns its status."""
    sys.stdout.flush()
    pid = os.fork()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) + 1000 if pid else 0


async def waits() -> None:
    try:
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(0)


async def numbers() -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        await asyncio.sleep(0)


async def subtask() -> int:
    status = fork()
    if status == 0 and WAY == "subtask exit":
        sys.exit(9)
    return status


class ForkingProtocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.status = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        status = fork()
        if status == 0:
            sys.exit(6)
        self.status.set_result(status)


async def by_protocol() -> int:
    ours, theirs = socket.socketpair()
    with theirs:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(ForkingProtocol, sock=ours)
        theirs.send(b"x")
        status: int = await protocol.status
        transport.close()
    return status


async def end_in_child(loop: asyncio.AbstractEventLoop) -> str:
    if WAY == "exit":
        sys.exit(7)
    if WAY == "abort":
        os._exit(5)
    if WAY == "raise":
        raise ValueError("own")
    if WAY == "sleep":
        await asyncio.sleep(0.01)
    if WAY == "future":
        await loop.create_future()
    return "returned"


async def main() -> object:
    loop = asyncio.get_running_loop()
    generator = numbers()
    await anext(generator)
    task = asyncio.create_task(waits())
    await loop.run_in_executor(None, time.sleep, 0)
    if WAY.startswith("subtask"):
        status = await asyncio.create_task(subtask())
    else:
        status = await by_protocol() if WAY == "protocol exit" else fork()
    if status == 0:
        return await end_in_child(loop)
    task.cancel()
    await generator.aclose()
    return status - 1000


if __name__ == "__main__":
    read, write = os.pipe()
    result: object
    try:
        with asyncio.Runner(loop_factory=lambda: ringloop.new_event_loop(backend=BACKEND)) as run:
            result = run.run(main())
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
        if os.getpid() != PARENT:
            os.write(write, result.encode())
            sys.exit(1)
        raise
    if os.getpid() != PARENT:
        os.write(write, str(result).encode())
    else:
        os.close(write)
        with open(read, encoding="utf-8") as pipe:
            print(json.dumps({"status": result, "said": pipe.read()}))
