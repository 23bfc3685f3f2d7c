"""Ends in the way that is asked for while receives, an accept, sends, timers, a file read, an
executor call and a kernel are in flight.

    exit_in_flight.py end|exit|raise|os-exit|daemon|closed|task-exit|interrupt
"""
import asyncio
import importlib.util
import os
import signal
import socket
import sys
import threading

import ringloop


class Sink(asyncio.Protocol):
    pass


async def busy() -> None:
    """Returns with all of it in flight."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    transport, _ = await loop.create_connection(Sink, *address)
    transport.write(b"x" * (8 << 20))
    left, right = socket.socketpair()
    left.setblocking(False)
    loop.create_task(loop.sock_recv(left, 10))
    loop.call_later(3600, print)
    loop.create_task(asyncio.sleep(3600))
    keep.extend([left, right, server, transport])
    keep.append(loop.create_task(read_file()))
    if importlib.util.find_spec("ringloop._kernels") is not None:
        import numpy
        a = numpy.ones((512, 512), dtype=numpy.float32)
        keep.append(loop.create_task(multiply(a)))
    await asyncio.sleep(0)


async def read_file() -> None:
    async with ringloop.open(sys.executable, "rb") as file:
        while True:
            await file.pread(65536, offset=0)


async def multiply(a: object) -> None:
    while True:
        await ringloop.kernels.matmul(a, a)


keep: list[object] = []


async def main(way: str) -> None:
    await busy()
    if way == "exit":
        sys.exit(3)
    if way == "raise":
        raise RuntimeError("meant")
    if way == "os-exit":
        os._exit(4)
    if way == "task-exit":
        asyncio.get_running_loop().call_soon(sys.exit, 5)
        await asyncio.sleep(3600)
    if way == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(3600)


def in_thread() -> None:
    started = threading.Event()

    async def serve() -> None:
        await busy()
        started.set()
        await asyncio.sleep(3600)

    threading.Thread(target=lambda: ringloop.run(serve()), daemon=True).start()
    started.wait()


if __name__ == "__main__":
    way = sys.argv[1]
    if way == "daemon":
        in_thread()
    elif way == "closed":
        ringloop.run(busy())
    else:
        loop = ringloop.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(main(way))      # never closed: the interpreter's end does it
