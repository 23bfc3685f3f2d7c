"""What third parties lean on: refusals that say what to do, patches, what outlives a loop."""
from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import socket
import subprocess
import sys
import threading
import warnings
from asyncio import trsock
from typing import Any
from unittest import mock

import pytest

import ringloop


class Recorder(asyncio.Protocol):
    """Keeps the transport and what it was told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.lost: list[Any] = []
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Any) -> None:
        self.lost.append(error)


def test_a_nested_run_says_what_to_do_and_changes_nothing(loop: Any) -> None:
    async def main() -> str:
        waiting = asyncio.sleep(0)
        for nested in (lambda: loop.run_until_complete(waiting), loop.run_forever):
            with pytest.raises(RuntimeError, match="already running.*await.*create_task"):
                nested()
        with pytest.raises(RuntimeError, match="running event loop"):
            asyncio.run(waiting)
        with pytest.raises(RuntimeError, match="running event loop"):
            loop.close()
        assert asyncio.get_running_loop() is loop and loop.is_running()
        await waiting
        await asyncio.sleep(0.001)
        return "done"

    assert loop.run_until_complete(main()) == "done"
    assert loop.run_until_complete(main()) == "done"


def test_a_second_loop_of_the_thread_says_what_to_do(loop: Any, backend: str) -> None:
    other = ringloop.new_event_loop(backend=backend)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="another loop is running.*thread of its own"):
            other.run_forever()

    loop.run_until_complete(main())
    other.run_until_complete(asyncio.sleep(0))
    other.close()


def test_nest_asyncio_is_refused_before_it_replaces_anything(loop: Any) -> None:
    """It used to replace run_forever() of every loop by one that needs a selector."""
    before = type(loop).run_forever
    with pytest.raises(RuntimeError, match="nest_asyncio.*await"):
        if not hasattr(loop, "_nest_patched"):  # what nest_asyncio.apply() asks first
            type(loop).run_forever = None  # type: ignore[method-assign, assignment]
    assert type(loop).run_forever is before
    assert dict(inspect.getmembers(loop))["slow_callback_duration"] == 0.1  # walks dir()
    with pytest.raises(AttributeError, match="has no _selector: use add_reader"):
        _ = loop._selector
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        _ = loop.nonsense


def test_methods_of_the_loop_are_looked_up_without_a_python_hook(loop: Any) -> None:
    """A __getattr__ in one of its classes made a bound method of each call_soon()."""
    hooks = ("__getattr__", "__getattribute__")
    found = [(c, hook) for c in type(loop).__mro__ for hook in hooks if hook in vars(c)]
    assert found == [(object, "__getattribute__")]


def test_a_lost_connection_still_shows_its_socket(loop: Any) -> None:
    async def main() -> None:
        made: list[Recorder] = []

        def factory() -> Recorder:
            made.append(Recorder())
            return made[-1]

        server = await loop.create_server(factory, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            name = client.getsockname()
            while not made or made[0].transport is None:
                await asyncio.sleep(0.001)
        while not made[0].lost:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        shown = made[0].transport.get_extra_info("socket")
        assert type(shown) is trsock.TransportSocket
        assert shown.fileno() == -1 and shown.family == socket.AF_INET
        assert made[0].transport.get_extra_info("peername") == name
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())


def test_a_write_behind_the_end_of_the_loop_leaves_at_once_or_raises(loop: Any) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        made = loop.run_until_complete(loop.create_connection(Recorder, sock=ours))
        transport = made[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            loop.close()
        transport.write(b"late")
        transport.write(bytearray(b"r"))
        assert theirs.recv(10) == b"later"
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            transport.write(bytes(50_000_000))
        del transport, made
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def test_methods_of_loops_and_transports_can_be_patched(loop: Any) -> None:
    async def main() -> None:
        a, b = socket.socketpair()
        with b:
            transport, _ = await loop.create_connection(Recorder, sock=a)
            transport.note = "kept"
            assert transport.note == "kept" and isinstance(transport, asyncio.Transport)
            with mock.patch.object(transport, "write") as write:
                transport.write(b"x")
                write.assert_called_once_with(b"x")
            with mock.patch("asyncio.Transport.get_extra_info", return_value=1) as replaced:
                assert transport.get_extra_info("peername") == 1
                replaced.assert_called_once_with("peername")  # a Mock is not bound
            with mock.patch("asyncio.BaseTransport.get_extra_info", lambda *a, **k: (a, k)):
                assert transport.get_extra_info("peername", default=2) == (
                    (transport, "peername"), {"default": 2})
            assert transport.get_extra_info("nothing", 3) == 3
            with mock.patch.object(loop, "call_soon") as call_soon:
                loop.call_soon(print)
                call_soon.assert_called_once_with(print)
            with mock.patch.object(loop, "getaddrinfo", side_effect=OSError("patched")):
                with pytest.raises(OSError, match="patched"):
                    await loop.create_connection(Recorder, "name.example", 1)
            transport.abort()
            await asyncio.sleep(0)

    loop.run_until_complete(main())


def test_a_factory_gets_the_keywords_that_the_caller_gave(loop: Any) -> None:
    asked: list[Any] = []

    def factory(of: Any, coroutine: Any, **given: Any) -> Any:
        asked.append(given)
        return asyncio.Task(coroutine, loop=of)

    def stock() -> list[Any]:
        """The same calls on the running Python's own loop."""
        plain = asyncio.SelectorEventLoop()
        plain.set_task_factory(factory)
        try:
            return calls(plain)
        finally:
            plain.close()

    def calls(of: Any) -> list[Any]:
        asked.clear()
        context = contextvars.Context()
        for keywords in ({}, {"name": "n"}, {"context": context}):
            of.run_until_complete(of.create_task(asyncio.sleep(0), **keywords))
        return [sorted(each) for each in asked]

    loop.set_task_factory(factory)
    assert calls(loop) == stock()
    with pytest.raises(TypeError):
        loop.set_task_factory(3)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in 3.12")
def test_eager_tasks_run_until_their_first_wait(loop: Any) -> None:
    loop.set_task_factory(asyncio.eager_task_factory)

    async def main() -> list[int]:
        seen: list[int] = []

        async def work() -> None:
            seen.append(1)
            await asyncio.sleep(0)
            seen.append(3)

        task = loop.create_task(work())
        seen.append(2)
        await task
        assert await loop.create_task(ringloop._native._probe_nop(5)) == 5
        return seen

    assert loop.run_until_complete(main()) == [1, 2, 3]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="call graphs are new in 3.14")
def test_the_call_graph_shows_who_waits(loop: Any) -> None:
    async def inner() -> Any:
        return asyncio.capture_call_graph()

    async def outer() -> Any:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(inner(), name="inner")
        return task.result()

    graph = loop.run_until_complete(outer())
    assert graph is not None and graph.future.get_name() == "inner" and graph.awaited_by



WAITING = """
import asyncio, ringloop
async def inner():
    await asyncio.sleep(60)
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(inner(), name="the inner task")
        print("ready", flush=True)
ringloop.run(main())
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="python -m asyncio ps is new in 3.14")
def test_asyncio_ps_shows_the_tasks_of_another_process() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            shown = subprocess.run([sys.executable, "-m", "asyncio", "ps", str(process.pid)],
                                   capture_output=True, text=True, timeout=60, check=False)
        finally:
            process.kill()
    if "ermission" in shown.stderr:
        pytest.skip("this user may not look into other processes")
    assert "the inner task" in shown.stdout, shown.stdout + shown.stderr


def test_a_loop_that_is_dropped_warns_and_frees(backend: str) -> None:
    loop = ringloop.new_event_loop(backend=backend)
    loop.call_later(60, print)
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        del loop
        gc.collect()


def test_a_loop_that_outlives_asyncios_modules_is_closed(backend: str) -> None:
    """At the interpreter's end it met None where asyncio's class had been: left half open."""
    loop = ringloop.new_event_loop(backend=backend)
    with mock.patch("asyncio.base_events.BaseEventLoop", None):  # how a module's end leaves it
        loop.close()
    assert loop.is_closed()


def test_an_awaitable_that_is_dropped_unstarted_says_nothing(loop: Any) -> None:
    async def main() -> None:
        a, b = socket.socketpair()
        with a, b:
            a.setblocking(False)
            loop.sock_recv(a, 1)
            loop.sock_accept(a)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop.run_until_complete(main())
        gc.collect()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the timeout is new in 3.12")
def test_a_busy_executor_is_left_after_the_timeout(loop: Any) -> None:
    """CPython 3.12.1 waits for its threads whatever the timeout."""
    go_on = threading.Event()

    async def main() -> None:
        work = loop.run_in_executor(None, go_on.wait)
        with pytest.warns(RuntimeWarning, match=r"threads within 0\.01 seconds"):
            await loop.shutdown_default_executor(0.01)
        go_on.set()
        await work
        await loop.shutdown_default_executor()

    loop.run_until_complete(main())


def test_a_wrong_choice_says_where_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match='unknown backend "x": choose'):
        ringloop.new_event_loop(backend="x")
    with pytest.raises(TypeError, match="'wrong'.*buffer_size, clock"):
        ringloop.new_event_loop(wrong=1)
    monkeypatch.setenv("RINGLOOP_BACKEND", "y")
    with pytest.raises(ValueError, match='"y" in the environment variable RINGLOOP_BACKEND'):
        ringloop.new_event_loop()
    gc.collect()  # none of them was a loop that could be left open


INSIDE = """
import sys
sys.path[:] = {path!r}
try:
    import ringloop
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise SystemError("it was imported")
"""
AROUND = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
for kind in ({"isolated": True}, {"isolated": False}):
    if sys.version_info >= (3, 13):
        made = interpreters.create("isolated" if kind["isolated"] else "legacy")
    else:
        made = interpreters.create(**kind)
    failure = interpreters.run_string(made, INSIDE.format(path=sys.path))
    assert failure is None, failure
    interpreters.destroy(made)
import asyncio
import ringloop
ringloop.run(asyncio.sleep(0))
print("fine")
"""


def test_a_subinterpreter_is_refused_with_a_sentence() -> None:
    """One with the shared GIL used to get our types, which are the main interpreter's."""
    for first in ("", "import ringloop\n"):
        program = f"{first}INSIDE = {INSIDE!r}\n{AROUND}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0 and done.stdout == "fine\n", done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="3.13 and newer can tell")
def test_no_support_of_free_threading_is_declared_that_was_not_run() -> None:
    assert sys._is_gil_enabled()


@pytest.mark.parametrize(("option", "value", "kind", "words"), [
    ("buffer_count", 3, ValueError, "buffer_count is 3: take a power of two"),
    ("buffer_count", -1, ValueError, "buffer_count is -1: take a number from 0"),
    ("buffer_count", "64", TypeError, "buffer_count must be an int, not '64'"),
    ("buffer_size", 0, ValueError, "buffer_size is 0: take at least 1 byte"),
    ("buffer_size", 2**32 + 4096, ValueError, "buffer_size is 4294971392: take a number"),
    ("submission_entries", 2**31, ValueError, "submission_entries is 2147483648: take at most"),
    ("completion_entries", 65537, ValueError, "completion_entries is 65537: take at most 65536"),
])
def test_a_wrong_option_is_named_as_it_was_given(
    backend: str, option: str, value: Any, kind: type[Exception], words: str
) -> None:
    """Messages used to name C++ members, a size of 4 GiB and more to lose its upper half, and too
    large a ring to be taken for an old kernel."""
    with pytest.raises(kind, match=f"^{words}"):
        ringloop.new_event_loop(backend=backend, **{option: value})
