"""Objects of extension modules that outlive their loop: a client in a global, an iterator that was
left in the middle. What they have of the loop's ends with it; they may end whenever they like.

The module is tests/python/extension/calls.hpp.
"""
from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from typing import Any

import pytest
from harness.extensions import load
from harness.loops import Run


@pytest.fixture(params=("bridge_calls", "bridge_calls_nanobind"))
def calls(request: pytest.FixtureRequest) -> Any:
    return load(request.param)


@contextlib.asynccontextmanager
async def echoing() -> Any:
    """Its port."""
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(100):
                    writer.write(data)
        finally:
            writer.close()

    listener = socket.create_server(("127.0.0.1", 0))      # by hand: uvloop would start threads
    server = await asyncio.start_server(serve, sock=listener)
    yield server.sockets[0].getsockname()[1]
    server.close()                  # not its connections: the client's end stays


def is_open(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


def test_a_client_may_outlive_its_loop(calls: Any, on_host: Run) -> None:
    """Its end used to be a crash: it closed its socket through the loop that had gone."""
    keeper = calls.Keeper()
    descriptors: list[int] = []

    async def main() -> None:
        async with echoing() as port:
            descriptors.extend(await keeper.open(port))
            await keeper.use()
            assert all(map(is_open, descriptors))

    async def later() -> None:
        with pytest.raises(RuntimeError, match="its scheduler has ended"):
            await keeper.use()

    on_host(main())
    assert not any(map(is_open, descriptors))      # the loop has closed them
    on_host(later())
    del keeper
    gc.collect()


def test_a_client_goes_on_to_another_loop(calls: Any, on_host: Run) -> None:
    keeper = calls.Keeper()

    async def main() -> None:
        async with echoing() as port:
            assert len(await keeper.open(port)) == 3
            await keeper.use()

    for _ in range(3):
        on_host(main())


def test_an_iterator_in_the_middle_may_outlive_its_loop(calls: Any, on_host: Run) -> None:
    """It has a socket and a lease of the loop's buffer; its end used to be a crash."""
    found: list[Any] = []

    async def main() -> None:
        async with echoing() as port:
            values = calls.holding(port)
            found.extend((values, await anext(values)))

    async def later() -> None:
        assert [each async for each in found[0]] == []

    on_host(main())
    assert not is_open(found[1])
    on_host(later())
    found.clear()
    gc.collect()


def test_an_iterator_that_never_began_belongs_to_no_loop(calls: Any, on_host: Run) -> None:
    values = calls.count(3)

    async def main() -> list[int]:
        return [each async for each in values]

    async def another() -> None:
        await calls.nothing()

    on_host(another())
    assert on_host(main()) == [0, 1, 2]
