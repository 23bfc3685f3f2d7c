"""Tests that anyio's pytest plug-in runs: its backend is asyncio with our loop."""
from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
import ringloop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": ringloop.new_event_loop}


@pytest.fixture
async def queue() -> Any:
    send, receive = anyio.create_memory_object_stream[int](10)
    async with send, receive:
        yield send, receive


async def test_a_fixture_and_its_test_share_our_loop(queue: Any) -> None:
    assert isinstance(asyncio.get_running_loop(), ringloop.EventLoop)
    send, receive = queue
    async with anyio.create_task_group() as group:
        group.start_soon(_fill, send)
        assert [await receive.receive() for _ in range(1000)] == list(range(1000))


async def _fill(send: Any) -> None:
    for number in range(1000):
        await send.send(number)


async def test_a_thousand_messages_over_tcp() -> None:
    async def serve(stream: Any) -> None:
        async with stream:
            async for data in stream:
                await stream.send(data)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            for number in range(1000):
                await client.send(b"%d" % number)
                assert await client.receive() == b"%d" % number
        group.cancel_scope.cancel()


async def test_timeouts_and_threads() -> None:
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep(60)
    assert scope.cancelled_caught
    assert await anyio.to_thread.run_sync(sum, range(10)) == 45


async def test_a_process() -> None:
    done = await anyio.run_process(["cat"], input=b"through a pipe")
    assert done.stdout == b"through a pipe"
