"""The same program on ringloop and on the running Python's own loop: what it sees must be equal."""
from __future__ import annotations

import asyncio
import contextvars
import errno
import gc
import logging
import re
import socket
import sys
import threading
import time
import warnings
from typing import Any, Callable

import pytest

Program = Callable[[Any], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def closed_port() -> tuple[socket.socket, int]:
    """Bound and not listening: connections are refused, and nobody else gets the number."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock, sock.getsockname()[1]


def told(error: BaseException, port: int = 0) -> tuple[Any, ...]:
    return (type(error).__name__, getattr(error, "errno", None),
            str(error).replace(str(port), "PORT") if port else str(error))


async def outcome(awaitable: Any, port: int = 0) -> Any:
    try:
        return await awaitable
    except (Exception, asyncio.CancelledError) as error:
        return told(error, port)


@program
def connections_that_fail_say_where(loop: Any) -> Any:
    async def main() -> Any:
        sock, port = closed_port()
        at = {"host": "127.0.0.1", "port": port}
        seen = []
        with sock, socket.create_server(("127.0.0.1", 0)) as open_server:
            for keywords in (
                at, {**at, "local_addr": ("127.0.0.1", port)},
                {**at, "local_addr": ("192.0.2.1", 0)}, {**at, "local_addr": ("::1", 0)},
                {**at, "happy_eyeballs_delay": 0.1}, {**at, "interleave": 1}, {},
                {**at, "sock": sock}, {**at, "ssl": True, "server_hostname": 5},
                {**at, "server_hostname": "x"}, {"host": "", "port": port},
                {"host": open_server.getsockname()[0], "port": open_server.getsockname()[1],
                 "ssl_handshake_timeout": 1},
            ):
                seen.append(await outcome(loop.create_connection(asyncio.Protocol, **keywords),
                                          port))
            if sys.version_info >= (3, 12):
                with pytest.raises(ExceptionGroup) as all_of_them:
                    await loop.create_connection(asyncio.Protocol, **at, all_errors=True)
                seen += [told(error, port) for error in all_of_them.value.exceptions]
            with socket.socket() as plain:
                plain.setblocking(False)
                seen.append(await outcome(loop.sock_connect(plain, ("127.0.0.1", port)), port))
        return seen

    return loop.run_until_complete(main())


@program
def servers_that_fail_say_where(loop: Any) -> Any:
    async def main() -> Any:
        sock, port = closed_port()
        with sock:
            return [await outcome(loop.create_server(asyncio.Protocol, *arguments, **keywords),
                                  port)
                    for arguments, keywords in (
                        (("127.0.0.1", port), {}), ((["127.0.0.1", "::1"], port), {}),
                        ((["192.0.2.1"], port), {}), ((), {}), (("127.0.0.1",), {"sock": sock}),
                        (("127.0.0.1", 0), {"ssl_handshake_timeout": 1}))]

    return loop.run_until_complete(main())


@program
def a_server_lives_and_ends(loop: Any) -> Any:
    async def main() -> Any:
        newer = {"keep_alive": True} if sys.version_info >= (3, 13) else {}
        server = await loop.create_server(asyncio.Protocol, ["127.0.0.1", "::1"], 0,
                                          start_serving=False, reuse_port=True, **newer)
        seen: list[Any] = [server.is_serving(), len(server.sockets), type(server.sockets[0])]
        options = (socket.SO_REUSEPORT, socket.SO_KEEPALIVE, socket.SO_REUSEADDR)
        seen += [bool(server.sockets[0].getsockopt(socket.SOL_SOCKET, option))
                 for option in options]
        await server.start_serving()
        await server.start_serving()
        seen.append(server.is_serving())
        serving = asyncio.ensure_future(server.serve_forever())
        await asyncio.sleep(0)
        seen.append((await outcome(server.serve_forever()))[0])
        serving.cancel()
        seen.append(await outcome(serving))
        seen += [server.is_serving(), server.sockets, server.get_loop() is loop]
        seen.append((await outcome(server.start_serving()))[0])
        await asyncio.wait_for(server.wait_closed(), 10)
        server.close()
        return seen

    return loop.run_until_complete(main())


@program
def a_server_waits_for_its_clients(loop: Any) -> Any:
    async def main() -> Any:
        made: list[Any] = []

        class Kept(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                made.append(transport)

        seen: list[Any] = []
        for verb in ("close", "close_clients", "abort_clients"):
            server = await loop.create_server(Kept, "127.0.0.1", 0)
            made.clear()
            with socket.create_connection(server.sockets[0].getsockname()):
                while not made:
                    await asyncio.sleep(0.001)
                server.close()
                waiting = asyncio.ensure_future(server.wait_closed())
                await asyncio.sleep(0.01)
                seen.append(waiting.done())
                if verb != "close" and hasattr(server, verb):
                    getattr(server, verb)()
                else:
                    made[0].close()
                await asyncio.wait_for(waiting, 10)
                await asyncio.sleep(0)
        return seen

    return loop.run_until_complete(main())


@program
def sockets_are_taken_over_or_refused(loop: Any) -> Any:
    async def main() -> Any:
        seen = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wrong:
            for method in (loop.connect_accepted_socket, loop.create_connection):
                seen.append((await outcome(method(asyncio.Protocol, sock=wrong)))[0])
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await loop.connect_accepted_socket(asyncio.Protocol, sock=ours)
            seen += [isinstance(transport, asyncio.Transport), type(protocol)]
            seen.append((await outcome(loop.connect_accepted_socket(
                asyncio.Protocol, ours, ssl_shutdown_timeout=1)))[:1])
            transport.abort()
            await asyncio.sleep(0)
        return seen

    return loop.run_until_complete(main())


@program
def exceptions_reach_the_handler_in_their_context(loop: Any) -> Any:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[Any] = []
    loop.set_exception_handler(lambda _, context: seen.append(
        (variable.get(), context["message"][:40], sorted(context))))

    async def main() -> None:
        async def fail() -> None:
            variable.set(7)
            raise ValueError

        variable.set(5)
        loop.call_soon(lambda: 1 / 0)
        loop.call_later(0, lambda: 1 / 0)
        task = loop.create_task(fail())
        await asyncio.sleep(0.01)
        del task
        gc.collect()

    loop.run_until_complete(main())
    loop.set_exception_handler(None)
    return seen


@pytest.fixture
def log() -> Any:
    records: list[str] = []

    class Keep(logging.Filter):
        """Before any handler: those of pytest keep the exceptions, and with them our handles."""

        def filter(self, record: logging.LogRecord) -> bool:
            records.append(record.getMessage())
            return False

    logger, keep = logging.getLogger("asyncio"), Keep()
    logger.addFilter(keep)
    yield records
    logger.removeFilter(keep)


def plain(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", text)


def handlers_that_raise(loop: Any, log: list[str]) -> Any:
    def leave(_: Any, __: Any) -> None:
        raise SystemExit(3)

    seen: list[Any] = []
    loop.set_debug(False)       # its tracebacks would name the callers of this function
    loop.set_exception_handler(lambda _, __: 1 / 0)
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.set_exception_handler(leave)
    loop.call_soon(lambda: 1 / 0)
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.set_exception_handler(None)
    loop.run_until_complete(asyncio.sleep(0))
    loop.call_exception_handler({"message": "plain", "extra": 5})
    seen += [plain(line) for line in log]
    return seen


def slow_callbacks(loop: Any, log: list[str]) -> Any:
    async def slow() -> None:
        time.sleep(0.05)  # tidy-allow: banned because being slow is what is tested

    loop.set_debug(True)
    loop.slow_callback_duration = 0.04
    loop.run_until_complete(slow())
    loop.call_soon(time.sleep, 0.05)
    loop.call_later(0, time.sleep, 0.05)
    loop.call_later(0.2, loop.stop)
    loop.run_forever()
    loop.set_debug(False)
    return [plain(line).split(" took ")[0] for line in log if "sleep(N)" in line or "slow" in line]


@program
def wrong_arguments_are_refused(loop: Any) -> Any:
    seen: list[Any] = []
    for wrong in (
        lambda: loop.set_task_factory(3), lambda: loop.set_exception_handler(3),
        lambda: loop.set_default_executor(3), lambda: loop.run_until_complete(3),
        lambda: loop.call_soon(), lambda: loop.call_later(1), lambda: loop.create_task(3),
        lambda: loop.set_debug(), lambda: loop.add_reader(-1, print),
    ):
        try:
            seen.append(wrong())  # type: ignore[no-untyped-call]
        except Exception as error:
            seen.append(type(error))
    return seen


@program
def an_executor_that_does_not_end_is_told_of(loop: Any) -> Any:
    go_on = threading.Event()

    async def main() -> Any:
        seen: list[Any] = []
        work = loop.run_in_executor(None, go_on.wait)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if sys.version_info >= (3, 13):  # 3.12.0 and 3.12.1 wait for the work all the same
                await loop.shutdown_default_executor(0.01)
            seen += [(each.category, str(each.message)) for each in caught]
        go_on.set()
        await work
        await loop.shutdown_default_executor()
        try:
            loop.run_in_executor(None, print)
        except RuntimeError as error:
            seen.append(str(error))
        return seen

    return loop.run_until_complete(main())


@program
def asynchronous_generators_are_ended(loop: Any) -> Any:
    seen: list[str] = []

    async def numbers(name: str) -> Any:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            seen.append(name)

    async def main() -> Any:
        async for _ in numbers("dropped"):
            break
        gc.collect()
        await asyncio.sleep(0.01)
        kept = numbers("kept")
        await kept.__anext__()
        return kept

    kept = loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_asyncgens())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        late = numbers("late")
        late_value = outcome(late.__anext__())
        loop.run_until_complete(late_value)
        loop.run_until_complete(late.aclose())
    del kept
    return seen, [each.category for each in caught]


@program
def a_program_that_leaves_can_come_back(loop: Any) -> Any:
    seen: list[Any] = []
    for kind in (KeyboardInterrupt, SystemExit):
        async def leave(kind: Any = kind) -> None:
            raise kind

        try:
            loop.run_until_complete(leave())
        except kind:
            seen.append(kind)
        task = loop.create_task(leave())
        try:
            loop.run_until_complete(asyncio.sleep(60))
        except kind:
            seen.append((kind, task.done(), loop.is_running()))
        task.exception()
        loop.run_until_complete(asyncio.sleep(0))
    for pending in asyncio.all_tasks(loop):
        pending.cancel()
        loop.run_until_complete(asyncio.gather(pending, return_exceptions=True))
    return seen


def on_stock(what: Program) -> Any:
    stock = asyncio.SelectorEventLoop()
    try:
        return what(stock)
    finally:
        stock.close()


@pytest.mark.parametrize("what", PROGRAMS, ids=[each.__name__ for each in PROGRAMS])
def test_a_program_sees_what_it_sees_on_asyncio(loop: Any, what: Program) -> None:
    assert what(loop) == on_stock(what)


@pytest.mark.parametrize("what", [handlers_that_raise, slow_callbacks])
def test_a_log_says_what_it_says_on_asyncio(loop: Any, log: list[str], what: Any) -> None:
    ours = what(loop, log)
    log.clear()
    assert ours == on_stock(lambda stock: what(stock, log)) and ours


def test_a_refused_connection_names_its_address(loop: Any) -> None:
    sock, port = closed_port()
    with sock, pytest.raises(ConnectionRefusedError, match=f"'127.0.0.1', {port}") as refused:
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, "127.0.0.1", port))
    assert refused.value.errno == errno.ECONNREFUSED
