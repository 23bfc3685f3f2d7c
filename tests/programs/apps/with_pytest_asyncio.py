"""Tests that pytest-asyncio runs, on the loop that apps/pytest_asyncio_hook.py names."""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator

import pytest
import pytest_asyncio
import ringloop

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def server() -> AsyncIterator[tuple[str, int]]:
    async def echo(reader: Any, writer: Any) -> None:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as made:
        yield made.sockets[0].getsockname()[:2]


async def test_a_thousand_messages_to_a_server_of_a_fixture(server: tuple[str, int]) -> None:
    assert isinstance(asyncio.get_running_loop(), ringloop.EventLoop)
    reader, writer = await asyncio.open_connection(*server)
    for number in range(1000):
        writer.write(b"%05d" % number)
        assert await reader.readexactly(5) == b"%05d" % number
    writer.close()
    await writer.wait_closed()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_loop_of_the_module() -> None:
    assert isinstance(asyncio.get_running_loop(), ringloop.EventLoop)
