"""The pytest side: fixtures and hooks, imported by name into conftest files.

Fixtures
    backend   "uring" or "epoll": the test runs once on each
    loop      a ringloop event loop of that backend, closed afterwards
    run       run(coroutine) on a fresh ringloop loop of that backend
    on_host   the same on every host of our awaitables: ringloop, asyncio, uvloop
`async def` tests run through `run`. Every test is checked for what it leaves behind and for what
its loops log as errors (logged.py), and limited in time (@pytest.mark.time_limit(seconds), default
60).
"""
from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
from typing import Any, Iterator

import pytest

from harness import accounts, limits, logged, loops

if "ASAN_OPTIONS" in os.environ:
    # For programs that tests start: many end with work in flight, and what an interpreter holds
    # then is no leak. This process's own sanitizer has read its options and goes on looking.
    os.environ["ASAN_OPTIONS"] += ":detect_leaks=0"


def _named_only(*given: Any, **keywords: Any) -> logging.LogRecord:
    """A record that holds its text and not the objects that it names: pytest keeps records until
    the test is over, and what they kept was then found open in the test behind."""
    record = logging.LogRecord(*given, **keywords)
    record.msg, record.args = record.getMessage(), ()
    return record


logging.setLogRecordFactory(_named_only)


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    if inspect.iscoroutinefunction(obj) and name.startswith("test"):
        pytest.mark.usefixtures("run")(obj)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    pyfuncitem.funcargs["run"](pyfuncitem.obj(**arguments))
    return True


def pytest_collection_finish() -> None:
    """Modules and tests live as long as the process: the collector, which looks after each test,
    leaves them out. It took a third of the time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("RINGLOOP_TEST_ALL") == "1":
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="a long test: ./dev test --all"))


_stderr = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    stash = item.config.stash
    if _stderr not in stash:
        capture: Any = item.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            stash[_stderr] = os.dup(2)
    mark = item.get_closest_marker("time_limit")
    with limits.time_limit(mark.args[0] if mark else limits.LIMIT_S, stash[_stderr], item.nodeid):
        return (yield)


@pytest.fixture(autouse=True)
def ledger(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up first and torn down last: what the other fixtures leave behind counts as well."""
    before = accounts.take()
    yield
    left = accounts.settled_difference(before)
    if request.node.get_closest_marker("no_ledger") is None and left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def logged_errors(request: pytest.FixtureRequest, ledger: None) -> Iterator[None]:
    """Set up behind the ledger: the loop's fixture, torn down first, may log as well."""
    with logged.errors() as errors:
        yield
    expected = (request.node.get_closest_marker("logs_errors") is not None
                or "caplog" in request.fixturenames)
    if errors and not expected:
        pytest.fail("logged as an error: " + "; ".join(errors), pytrace=False)


@pytest.fixture(params=loops.BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    wanted = request.node.get_closest_marker("backends")
    if wanted is not None and name not in wanted.args:
        pytest.skip(f"for backend {' and '.join(wanted.args)} only")
    reason = loops.refusal(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.fixture
def loop(backend: str) -> Iterator[asyncio.AbstractEventLoop]:
    made = loops.factory(f"ringloop-{backend}")()
    yield made
    if not made.is_closed():
        made.close()
    made.set_exception_handler(None)  # pytest keeps the loop a while: not the handler's reports


@pytest.fixture
def run(backend: str) -> loops.Run:
    return loops.Run(f"ringloop-{backend}")


@pytest.fixture(params=loops.HOSTS)
def on_host(request: pytest.FixtureRequest) -> loops.Run:
    host: str = request.param
    if host.startswith("ringloop-"):
        reason = loops.refusal(host.removeprefix("ringloop-"))
        if reason is not None:
            pytest.skip(reason)
    return loops.Run(host)
