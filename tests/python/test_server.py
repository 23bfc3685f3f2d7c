"""Servers: accepting, refusing, running out of descriptors, closing, and many connections."""
from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import os
import resource
import signal
import socket
import sys
import threading
import time

import pytest

import ringloop
from harness.forks import fork
from harness.tcp import Recorder, elsewhere, read_all, read_exactly, reset, turns


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def serve(factory=Echo, **options):
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, **options)
    return server, server.sockets[0].getsockname()


async def end(server):
    server.close()
    await server.wait_closed()


async def test_a_server_answers_many_clients():
    server, address = await serve()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(100)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number * 50)
        for number, client in enumerate(clients):
            expected = b"%d" % number * 50
            assert await elsewhere(read_exactly, client, len(expected)) == expected
    await end(server)


@pytest.mark.skipif(sys.version_info < (3, 15), reason="servers keep a context from 3.15 on")
async def test_connections_get_the_context_in_which_the_server_was_made():
    variable = contextvars.ContextVar("variable", default="nothing")

    class Looking(asyncio.Protocol):
        def connection_made(self, transport):
            seen.set_result(variable.get())
            variable.set("a connection")
            transport.close()

    variable.set("made")
    server, address = await serve(Looking, start_serving=False)
    variable.set("started")
    await server.start_serving()
    for _ in range(2):
        seen = asyncio.get_running_loop().create_future()
        with socket.create_connection(address, 30) as client:
            assert await seen == "made"
            assert await elsewhere(read_all, client) == b""
    await end(server)


async def test_a_server_closing_right_after_accept_is_seen_by_every_client():
    class Closing(asyncio.Protocol):
        def connection_made(self, transport):
            transport.write(b"bye")
            transport.close()

    server, address = await serve(Closing)
    for _ in range(50):
        with socket.create_connection(address, 30) as client:
            assert await elsewhere(read_all, client) == b"bye"
    await end(server)


async def test_a_client_that_is_gone_already_does_no_harm():
    server, address = await serve()
    for _ in range(20):
        reset(socket.create_connection(address, 30))
    with socket.create_connection(address, 30) as client:
        client.sendall(b"hello")
        assert await elsewhere(read_exactly, client, 5) == b"hello"
    await end(server)


async def test_a_factory_that_raises_is_told_and_costs_its_client_only():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    fail = [True]

    def factory():
        if fail[0]:
            raise ValueError("on purpose")
        return Echo()

    server, address = await serve(factory)
    with socket.create_connection(address, 30) as client:
        assert await elsewhere(read_all, client) == b""
    assert isinstance(told[0]["exception"], ValueError)
    fail[0] = False
    with socket.create_connection(address, 30) as client:
        client.sendall(b"hello")
        assert await elsewhere(read_exactly, client, 5) == b"hello"
    await end(server)
    told.clear()


async def test_closing_the_server_refuses_clients_and_keeps_connections():
    server, address = await serve()
    with socket.create_connection(address, 30) as client:
        client.sendall(b"one")
        assert await elsewhere(read_exactly, client, 3) == b"one"
        server.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, 30)
        client.sendall(b"two")
        assert await elsewhere(read_exactly, client, 3) == b"two"
    await server.wait_closed()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="close_clients() came with 3.13")
@pytest.mark.parametrize("verb", ["close_clients", "abort_clients"])
async def test_a_server_can_close_its_clients(verb):
    server, address = await serve()
    with socket.create_connection(address, 30) as client:
        client.sendall(b"one")
        assert await elsewhere(read_exactly, client, 3) == b"one"
        server.close()
        getattr(server, verb)()
        assert await elsewhere(read_all, client) == b""
        await server.wait_closed()


async def test_serve_forever_ends_when_cancelled():
    server, address = await serve(start_serving=False)
    task = asyncio.ensure_future(server.serve_forever())
    await turns()
    with socket.create_connection(address, 30) as client:
        client.sendall(b"x")
        assert await elsewhere(read_exactly, client, 1) == b"x"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not server.is_serving()


@contextlib.contextmanager
def no_descriptor_left():
    """No number below the limit is free. The ring takes the limit when accepting is armed."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        lowest = probe.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def starved_server(told, stack, client_count):
    """A server that was told that descriptors are short, and clients that wait for it."""
    loop = asyncio.get_running_loop()
    problem = loop.create_future()

    def note(loop, context):
        told.append(context)
        if not problem.done():
            problem.set_result(None)

    loop.set_exception_handler(note)
    server, address = await serve(start_serving=False)
    clients = [stack.enter_context(socket.socket()) for _ in range(client_count)]
    with no_descriptor_left():
        server._start_serving()
        for client in clients:
            client.settimeout(30)
            client.connect(address)
        await problem
    return server, clients


async def test_running_out_of_descriptors_is_told_once_and_accepting_goes_on():
    told = []
    with contextlib.ExitStack() as stack:
        server, clients = await starved_server(told, stack, 3)
        for client in clients:
            client.sendall(b"at last")
        for client in clients:
            assert await elsewhere(read_exactly, client, 7) == b"at last"
        assert len(told) == 1
        assert told[0]["message"] == "socket.accept() out of system resource"
        assert told[0]["exception"].errno == errno.EMFILE and "socket" in told[0]
    await end(server)
    told.clear()


async def test_closing_a_server_that_waits_for_descriptors_ends_it():
    told = []
    with contextlib.ExitStack() as stack:
        server, _ = await starved_server(told, stack, 1)
        assert len(told) == 1
        await end(server)
    told.clear()


def test_a_thousand_connections_share_four_receive_buffers(backend):
    class Counting(Echo):
        made = open = 0

        def connection_made(self, transport):
            super().connection_made(transport)
            Counting.made += 1
            Counting.open += 1

        def connection_lost(self, exc):
            Counting.open -= 1

    loop = ringloop.new_event_loop(backend=backend, buffer_count=4)
    messages = 5

    def drive(clients):
        for number in range(messages):
            for client in clients:
                client.sendall(bytes([number]) * 1000)
            for client in clients:
                assert read_exactly(client, 1000) == bytes([number]) * 1000

    async def main():
        server = await loop.create_server(Counting, "127.0.0.1", 0, backlog=1000)
        address = server.sockets[0].getsockname()
        clients = []
        try:
            for _ in range(1000):
                clients.append(await elsewhere(socket.create_connection, address, 30))
            await elsewhere(drive, clients)
            assert Counting.made == 1000
            assert loop._counters()["leased_buffers"] <= 4
        finally:
            for client in clients:
                client.close()
            await end(server)
        while Counting.open > 0:    # before 3.12 wait_closed() does not wait for them
            await asyncio.sleep(0.001)

    try:
        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_default_executor())
        assert loop._counters()["leased_buffers"] == 0
    finally:
        loop.close()


def test_a_bound_server_moves_to_another_thread(backend):
    loop = ringloop.new_event_loop(backend=backend)
    server = loop.run_until_complete(loop.create_server(Echo, "127.0.0.1", 0))
    address = server.sockets[0].getsockname()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with socket.create_connection(address, 30) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    server.close()
    loop.run_until_complete(server.wait_closed())
    loop.close()


def test_a_loop_closed_with_an_open_server_leaves_nothing(backend):
    loop = ringloop.new_event_loop(backend=backend)
    server = loop.run_until_complete(loop.create_server(Echo, "127.0.0.1", 0))
    sock = server.sockets[0]
    loop.close()
    with contextlib.suppress(RuntimeError):
        server.close()
    assert sock.fileno() == -1


async def test_nothing_is_kept_of_a_thousand_connections():
    server, address = await serve()
    loop = asyncio.get_running_loop()

    def drive():
        for _ in range(500):
            with socket.create_connection(address, 30) as client:
                client.sendall(b"x")
                assert client.recv(1) == b"x"

    await elsewhere(drive)
    await turns()
    before = loop._counters()["in_flight"]
    await elsewhere(drive)
    while loop._counters()["in_flight"] != before:      # the last client's end is on its way
        await asyncio.sleep(0)
    assert loop._counters()["leased_buffers"] == 0
    await end(server)


async def test_the_same_socket_cannot_be_served_twice():
    server, _ = await serve()
    sock = server._sockets[0]
    with pytest.raises(ringloop.FdConflictError, match="is used by server") as caught:
        asyncio.get_running_loop()._start_serving(Echo, sock)
    assert (caught.value.fd, caught.value.wanted_by) == (sock.fileno(), "start_serving()")
    await end(server)


async def test_the_recorder_sees_one_life_per_connection():
    made = []

    def factory():
        made.append(Recorder())
        return made[-1]

    server, address = await serve(factory)
    for _ in range(20):
        with socket.create_connection(address, 30) as client:
            await elsewhere(client.sendall, b"data")
    while len(made) < 20 or not all(p.lost.done() for p in made):
        await asyncio.sleep(0)
    assert all(p.events == ["made", "data", "eof", "lost"] for p in made)
    await end(server)


def test_a_busy_process_leaves_connections_to_others_that_share_the_listener(run):
    """As workers of a pre-forking server do. The kernel accepted for the busy one."""
    busy_s = 1.0
    busy = threading.Event()

    async def serve_shared(listener: socket.socket) -> None:
        server = await asyncio.get_running_loop().create_server(Echo, sock=listener)
        await server.serve_forever()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        address = listener.getsockname()
        child = fork()
        if child == 0:
            try:
                run(serve_shared(listener))
            finally:
                os._exit(1)

        async def main() -> list[float]:
            server = await asyncio.get_running_loop().create_server(Echo, sock=listener.dup())
            with socket.create_connection(address, 30) as one:      # both are at work
                one.sendall(b"x")
                assert await elsewhere(one.recv, 1) == b"x"
            await asyncio.sleep(0.2)
            took = asyncio.ensure_future(asyncio.to_thread(clients))
            await asyncio.sleep(0)
            busy.set()
            end_s = time.monotonic() + busy_s
            while time.monotonic() < end_s:     # computes, and lets the other thread in
                sum(range(1000))
            times = await took
            server.close()
            await server.wait_closed()
            return times

        def clients() -> list[float]:
            took = []
            assert busy.wait(30)
            for _ in range(8):
                begin_s = time.monotonic()
                with socket.create_connection(address, 30) as one:
                    one.sendall(b"x")
                    assert one.recv(1) == b"x"
                took.append(time.monotonic() - begin_s)
            return took

        try:
            assert max(run(main())) < busy_s / 2
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
