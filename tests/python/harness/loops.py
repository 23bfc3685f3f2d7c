"""The loops that tests run on: ringloop on each backend, and the hosts of its awaitables.

RINGLOOP_TEST_BACKENDS (comma-separated: uring, epoll, auto) replaces the backends, for launchers
that deny io_uring; RINGLOOP_TEST_MASK (opcode numbers) makes the ring an older kernel's. A backend
that this machine refuses is skipped, with the machine's own reason.
"""
from __future__ import annotations

import asyncio
import functools
import importlib
import os
from typing import Any, Callable, Coroutine, TypeVar

T = TypeVar("T")
Factory = Callable[[], asyncio.AbstractEventLoop]

BACKENDS = tuple(os.environ.get("RINGLOOP_TEST_BACKENDS", "uring,epoll").split(","))
_masked = [int(word) for word in os.environ.get("RINGLOOP_TEST_MASK", "").split(",") if word]
MASK: dict[str, Any] = {"masked_opcodes": _masked} if _masked else {}
GUESTS = tuple(os.environ.get("RINGLOOP_TEST_GUESTS", "asyncio,uvloop").split(","))
HOSTS = tuple(f"ringloop-{backend}" for backend in BACKENDS) + GUESTS


def _warm_up() -> None:
    # libuv's signal pipe is made with the first loop and lives as long as the process.
    try:
        importlib.import_module("uvloop").new_event_loop().close()
    except ImportError:
        pass


_warm_up()


@functools.lru_cache(maxsize=None)
def refusal(backend: str) -> str | None:
    """Why this machine cannot run `backend`; None if it can."""
    import ringloop
    try:
        ringloop.new_event_loop(backend=backend).close()
    except OSError as error:
        return f"backend {backend}: {error}"
    return None


def factory(host: str) -> Factory:
    if host.startswith("ringloop-"):
        import ringloop
        return functools.partial(ringloop.new_event_loop, backend=host.removeprefix("ringloop-"),
                                 **MASK)
    if host == "asyncio":
        return asyncio.new_event_loop
    made: Factory = importlib.import_module(host).new_event_loop
    return made


class Run:
    """run(coroutine) on a fresh loop of one kind, closed before it returns. A call that needs a
    loop object itself takes `run.new_loop()` and closes it."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.new_loop = factory(host)

    def __call__(self, main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
        with asyncio.Runner(debug=debug, loop_factory=self.new_loop) as runner:
            # A collection takes long on a busy machine, and a log would keep what it names.
            runner.get_loop().slow_callback_duration = 60
            return runner.run(main)
