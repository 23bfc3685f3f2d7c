"""Ends in the way that is asked for while work of the kinds that are asked for is in flight.

    exit_in_flight.py WAY STATE[,STATE…] [LOOP]

Prints "leaving SECONDS" (of the monotonic clock) right before the end begins. main() and over()
have the ways, STATES below and bridge_in_flight.py the states; "all" is all of the former, "bridge"
all of the latter. LOOP: ringloop, asyncio or uvloop.
"""
import asyncio
import importlib.util
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import bridge_in_flight

import ringloop

keep: list[object] = []
LOOP = sys.argv[3] if len(sys.argv) > 3 else "ringloop"


class Sink(asyncio.Protocol):
    pass


def new_loop() -> asyncio.AbstractEventLoop:
    made: asyncio.AbstractEventLoop = importlib.import_module(LOOP).new_event_loop()
    return made


def run(work: Coroutine[Any, Any, None]) -> None:
    ringloop.run(work, loop_factory=new_loop)


def leaving() -> None:
    print(f"leaving {time.monotonic()}", flush=True)


def pair() -> tuple[socket.socket, socket.socket]:
    left, right = socket.socketpair()
    left.setblocking(False)
    keep.extend([left, right])
    return left, right


def task(work: Any) -> None:
    keep.append(asyncio.ensure_future(work))


# ---- what is in flight

async def idle() -> None:
    pass


async def receive() -> None:
    task(asyncio.get_running_loop().sock_recv(pair()[0], 10))
    reader, _ = await asyncio.open_connection(sock=pair()[0])
    task(reader.read(1))


async def send() -> None:
    loop = asyncio.get_running_loop()
    keep.append(server := await loop.create_server(Sink, "127.0.0.1", 0))
    transport, _ = await loop.create_connection(Sink, *server.sockets[0].getsockname())
    transport.write(b"x" * (8 << 20))
    stuck, _ = await loop.create_connection(Sink, sock=pair()[0])       # nobody reads
    stuck.write(b"x" * (8 << 20))
    keep.extend([transport, stuck])


async def connect() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    keep.append(listener)
    for _ in range(4):      # the last ones wait for a place
        task(asyncio.open_connection(*listener.getsockname()))


async def datagrams() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    for _ in range(100):
        transport.sendto(b"x" * 1_000, transport.get_extra_info("sockname"))
    keep.append(transport)


async def files() -> None:
    async def read() -> None:
        async with ringloop.open(sys.executable, "rb") as file:
            while True:
                await file.pread(65_536, offset=0)

    task(read())
    read_end, write_end = os.pipe()
    keep.append(write_end)
    file = await ringloop.open(f"/proc/self/fd/{read_end}", "rb")
    keep.append(file)
    task(file.read(1))      # without an end


async def sendfile() -> None:
    near, _ = pair()
    keep.append(file := tempfile.TemporaryFile())
    file.truncate(64 << 20)
    transport, _ = await asyncio.get_running_loop().create_connection(Sink, sock=near)
    task(asyncio.get_running_loop().sendfile(transport, file))


async def pipes() -> None:
    loop = asyncio.get_running_loop()
    read_end, write_end = (open(fd, mode, 0) for fd, mode in zip(os.pipe(), ("rb", "wb")))
    keep.append(await loop.connect_read_pipe(Sink, read_end))
    transport, _ = await loop.connect_write_pipe(Sink, write_end)
    transport.write(b"x" * (1 << 20))
    transport_and_child = await loop.subprocess_exec(
        asyncio.SubprocessProtocol, "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    keep.extend([transport, transport_and_child])


async def child() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE)
    task(process.communicate())
    keep.append(process)
    assert process.stdin is not None
    task(asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE))     # in the middle of it


async def handshake() -> None:
    """TLS towards somebody who says nothing, and a server that waits for a hello."""
    context = ssl.create_default_context()
    task(asyncio.get_running_loop().create_connection(
        Sink, sock=pair()[0], ssl=context, server_hostname="localhost"))
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keep.append(server := await asyncio.start_server(print, "127.0.0.1", 0, ssl=server_context))
    keep.append(socket.create_connection(server.sockets[0].getsockname()))


async def executor() -> None:
    """The interpreter waits for such a thread itself: this one goes on for a moment only."""
    loop = asyncio.get_running_loop()
    keep.append(loop.run_in_executor(None, threading.Event().wait, 0.2))
    task(loop.getaddrinfo("localhost", 80))


async def timers() -> None:
    loop = asyncio.get_running_loop()
    keep.extend(loop.call_later(3_600, print, number) for number in range(100))
    task(asyncio.sleep(3_600))


async def callbacks() -> None:
    """Always something to do; a signal's handler, too."""
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_soon(again)

    again()
    if threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGUSR1, print)
        os.kill(os.getpid(), signal.SIGUSR1)


async def kernel() -> None:
    if not all(map(importlib.util.find_spec, ("ringloop._kernels", "numpy"))):
        return
    import numpy
    a = numpy.ones((1_500, 1_500), dtype=numpy.float32)

    async def multiply() -> None:
        while True:
            await ringloop.kernels.matmul(a, a)

    task(multiply())


async def bridge() -> None:
    """What extension modules do; the package alone has none."""
    folder = Path(ringloop._native.__file__).absolute().parents[2] / "extensions"
    if folder.is_dir():
        for state in bridge_in_flight.STATES.values():
            await state()


STATES: dict[str, Callable[[], Awaitable[None]]] = {each.__name__: each for each in (
    idle, receive, send, connect, datagrams, files, sendfile, pipes, child, handshake, executor,
    timers, callbacks, kernel, bridge)}


async def busy(states: list[str]) -> None:
    """Returns with all of it in flight."""
    for state in states:
        await (STATES.get(state) or getattr(bridge_in_flight, state))()
    await asyncio.sleep(0)


# ---- the ends

async def main(way: str, states: list[str]) -> None:
    loop = asyncio.get_running_loop()
    await busy(states)
    leaving()
    if way == "exit":
        sys.exit(3)
    if way == "raise":
        raise RuntimeError("meant")
    if way == "os-exit":
        os._exit(4)
    if way == "fork":       # the child ends beside work of its parent's
        pid = os.fork()
        sys.exit(10 if pid == 0 else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if way == "callback-exit":
        loop.call_soon(sys.exit, 5)
    if way == "timer-exit":
        loop.call_later(0.01, sys.exit, 6)
    if way == "thread-exit":
        threading.Thread(target=loop.call_soon_threadsafe, args=(sys.exit, 7)).start()
    if way in ("handler-exit", "terminate", "interrupt"):
        number = signal.SIGINT if way == "interrupt" else signal.SIGTERM
        if way == "handler-exit":
            loop.add_signal_handler(number, sys.exit, 8)
        os.kill(os.getpid(), number)
    if way == "stop":
        loop.stop()
    if way != "end":
        await asyncio.sleep(3_600)


def in_thread(states: list[str]) -> None:
    started = threading.Event()

    async def serve() -> None:
        await busy(states)
        started.set()
        await asyncio.sleep(3_600)

    threading.Thread(target=lambda: run(serve()), daemon=True).start()
    started.wait()
    leaving()


async def closed(states: list[str]) -> None:
    await busy(states)
    leaving()


def over(way: str, states: list[str]) -> None:
    if way == "daemon":
        in_thread(states)
    elif way == "daemon-exit":
        in_thread(states)
        sys.exit(9)
    elif way == "closed":
        run(closed(states))
    elif way == "run-interrupt":
        run(main("interrupt", states))
    else:
        loop = new_loop()
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(lambda loop, context: None)
        if way == "stop":
            keep.append(loop.create_task(main(way, states)))
            loop.run_forever()
            loop.close()        # with all of it still in flight
        else:
            loop.run_until_complete(main(way, states))      # never closed: the interpreter does


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)         # fork with threads: meant here
    signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's "&" ignores it
    over(sys.argv[1], list(STATES) if sys.argv[2] == "all" else sys.argv[2].split(","))
