"""Descriptors that change hands: Python's transports, native coroutines, loops of other threads.
The module is tests/python/extension/ends.cpp."""
from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ringloop
from harness.extensions import load
from harness.loops import Run
from harness.tcp import Recorder, attach, elsewhere, tcp_pair

ends = load("bridge_ends")
ROUNDS = 1_000 if os.environ.get("RINGLOOP_TEST_ALL") == "1" else 100


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.settimeout(30)
    with near, far:
        yield near, far


class Upper(Recorder):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data.upper())


@pytest.mark.parametrize("native", [ends.answer, ends.answer_elsewhere],
                         ids=["this thread", "another"])
async def test_from_a_transport_to_native_code_and_back(native):
    """As often as it likes: no byte is lost or doubled, and there is one owner at any time."""
    with tcp_pair() as (near, far):
        far.setblocking(False)
        transport, protocol = await attach(near, Upper)
        loop = asyncio.get_running_loop()
        for number in range(ROUNDS):
            await loop.sock_sendall(far, b"python %d" % number)
            assert await loop.sock_recv(far, 100) == b"PYTHON %d" % number
            sock, received = await ringloop.detach(transport)
            assert received == b"" and ringloop.fdinfo(sock).owners == ()
            asked = native(sock)
            assert sock.fileno() == -1
            await loop.sock_sendall(far, b"native %d" % number)
            owned = await asked
            assert [owner.kind for owner in ringloop.fdinfo(owned).owners] == ["handle"]
            assert await loop.sock_recv(far, 100) == b"NATIVE %d" % number
            transport, protocol = await ringloop.attach(owned, Upper)
        transport.close()
        await protocol.lost
        assert await loop.sock_recv(far, 1) == b""


def test_native_code_has_a_socket_under_any_loop(on_host: Run) -> None:
    async def main() -> None:
        for native in (ends.answer, ends.answer_elsewhere):
            with pair() as (near, far):
                asked = asyncio.ensure_future(native(near))
                await asyncio.sleep(0)
                far.send(b"hello")
                with socket.socket(fileno=(await asked).detach()) as back:
                    assert far.recv(100) == b"HELLO"
                    transport, protocol = await asyncio.get_running_loop().create_connection(
                        Upper, sock=back)
                    far.send(b"again")
                    assert await elsewhere(far.recv, 100) == b"AGAIN"
                    transport.close()
                    await protocol.lost

    on_host(main())


def test_a_cancel_closes_what_native_code_has(on_host: Run) -> None:
    async def main() -> None:
        for native in (ends.answer, ends.answer_elsewhere):
            for delay in (0, 0.002):
                with pair() as (near, far):
                    task = asyncio.ensure_future(native(near))
                    await asyncio.sleep(delay)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    assert far.recv(1) == b""

    on_host(main())


def test_a_result_that_a_cancel_overtakes_is_closed(on_host: Run) -> None:
    async def main() -> None:
        with pair() as (near, far):
            asked = ends.answer(near)
            far.send(b"x")
            task = asyncio.ensure_future(asked)
            while not asked.done():
                await asyncio.sleep(0)
            task.cancel()           # the task has not taken it, or just now
            with contextlib.suppress(asyncio.CancelledError):
                (await task).close()
            assert far.recv(1) == b"X" and far.recv(1) == b""

    on_host(main())


def test_a_call_that_nobody_awaits_closes_its_descriptor() -> None:
    with pair() as (near, far):
        ends.answer(near).close()
        assert far.recv(1) == b""
    with pair() as (near, far):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            ends.answer(near)
            gc.collect()
        assert far.recv(1) == b""


async def test_a_refused_call_leaves_descriptors_where_they_were():
    loop = asyncio.get_running_loop()
    with pair() as (near, far):
        for wrong in (5, "socket", None, open):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                ends.answer(wrong)
        with pytest.raises(TypeError):
            ends.twice(near, far, "no number")
        assert near.fileno() >= 0 and far.fileno() >= 0
        loop.add_reader(near, print)
        with pytest.raises(ringloop.FdConflictError, match="reader.*wanted by native code"):
            ends.answer(near)
        loop.remove_reader(near)
        assert near.fileno() >= 0
    with pytest.raises(ValueError, match="closed"):
        ends.answer(near)


def test_only_what_has_a_descriptor_to_give_gives_one() -> None:
    """A file used to lose its descriptor in the call that refused it, a TLS socket its keys, and a
    number too large was taken for that of another file."""
    class Alike:
        def fileno(self) -> int:
            return 0

        def detach(self) -> int:
            return 1 << 32

    with open(os.devnull, "rb") as file, pair() as (near, far), \
            ssl.create_default_context().wrap_socket(
                near, do_handshake_on_connect=False, server_hostname="x") as wrapped:
        for given in (file, Alike(), wrapped):
            with pytest.raises(TypeError, match="native code takes (a socket|no SSLSocket)"):
                ends.answer(given)
        assert file.read() == b"" and wrapped.fileno() >= 0
    os.fstat(0)


# ---- objects that outlive their loop

def test_a_connection_may_outlive_the_loop_that_it_was_made_on(on_host: Run) -> None:
    """An object or an iterator with a socket in it used to crash the process when it went."""
    async def go_on(connection: Any, steps: Any) -> None:
        for used in (connection.receive(), connection.send("x")):
            with pytest.raises(RuntimeError, match="its scheduler has ended"):
                await used
        assert [step async for step in steps] == []     # it ended with its loop

    async def main() -> tuple[Any, Any]:
        connection = ends.Connection()
        await connection.open(near)
        steps = ends.sizes(other)
        far.send(b"first")
        other_far.send(b"second")
        assert await connection.receive() == 5
        assert await anext(steps) == 6
        return connection, steps

    for _ in range(3):
        with pair() as (near, far), pair() as (other, other_far):
            connection, steps = on_host(main())
            on_host(go_on(connection, steps))
            del connection, steps
            gc.collect()            # the errors have tracebacks
            assert far.recv(1) == b"" and other_far.recv(1) == b""


def test_a_connection_may_be_collected_on_another_thread(on_host: Run) -> None:
    """A collector runs on any thread. It closed the socket, with its receive armed, and gave back
    the bytes on loan, while the loop was in the same driver: that hung, or worse."""
    class Holder:
        pass

    async def main() -> None:
        for turn in range(50):
            with pair() as (near, far):
                connection = ends.Connection()
                await connection.open(near)
                far.send(b"one")
                assert await connection.receive() == 3
                holder: Any = Holder()
                holder.connection, holder.itself = connection, holder
                del connection, holder
                collecting = asyncio.create_task(asyncio.to_thread(gc.collect))
                await asyncio.sleep(0.001 * (turn % 3))
                far.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(far, 1) == b""
                await collecting

    gc.disable()
    try:
        on_host(main())
    finally:
        gc.enable()


# ---- between the rings of one process

def test_a_connection_goes_from_one_thread_s_loop_to_the_other_s_and_back(run: Run) -> None:
    """The loops of two threads: what was received and not read goes along."""
    ready, over = threading.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def wait() -> None:
        loops.append(asyncio.get_running_loop())
        ready.set()
        await elsewhere(over.wait)

    async def main() -> None:
        here, there = asyncio.get_running_loop(), loops[0]
        with tcp_pair() as (near, far):
            far.setblocking(False)
            transport, protocol = await attach(near)
            for number in range(ROUNDS // 4):
                transport.pause_reading()
                await here.sock_sendall(far, b"%08d" % number)
                sock, received = await ringloop.detach(transport)
                answered = asyncio.run_coroutine_threadsafe(visit(sock, received), there)
                sock, received = await asyncio.wrap_future(answered)
                assert received == b"" and ringloop.fdinfo(sock).owners == ()
                assert await here.sock_recv(far, 100) == b"%08d" % number
                transport, protocol = await ringloop.attach(sock, Recorder)
            transport.close()
            await protocol.lost

    async def visit(sock: socket.socket, received: bytes) -> Any:
        transport, protocol = await ringloop.attach(sock, Upper, received)
        await protocol.receive(8)
        return await ringloop.detach(transport)

    thread = threading.Thread(target=lambda: run(wait()))
    thread.start()
    ready.wait()
    try:
        run(main())
    finally:
        over.set()
        thread.join()
