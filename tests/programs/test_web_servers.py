"""uvicorn, gunicorn with uvicorn's workers, and hypercorn, each in a process of its own on our
loop, asked by aiohttp and websockets on our loop."""
from __future__ import annotations

import asyncio
import contextlib
from typing import Iterator

import aiohttp
import pytest
import websockets
from harness.loops import Run

from programs import servers

COUNT = 1000
AT_A_TIME = 20


@contextlib.contextmanager
def served(program: str) -> Iterator[int]:
    """The port on which `program` answers."""
    with servers.listening() as (sock, port):
        command = {
            "uvicorn": ["-m", "uvicorn", "asgi_echo:app", "--fd", f"{sock.fileno()}",
                        "--loop", "ringloop:new_event_loop", "--log-level", "warning"],
            "gunicorn": ["-m", "gunicorn", "asgi_echo:app", "--bind", f"fd://{sock.fileno()}",
                         "--worker-class", "ringloop_worker.RingloopWorker", "--workers", "2",
                         "--log-level", "warning", "--no-control-socket"],
            "hypercorn": ["hypercorn_serve.py", f"{sock.fileno()}"]}[program]
        with servers.process(*command, sock=sock):
            yield port


@pytest.fixture(params=("uvicorn", "gunicorn", "hypercorn"))
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with served(request.param) as found:
        yield found


def test_answers_a_thousand_requests(port: int, run: Run) -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(AT_A_TIME)

        async def ask(session: aiohttp.ClientSession, number: int) -> None:
            async with gate, session.post(f"http://127.0.0.1:{port}/", data=f"{number}") as answer:
                assert answer.headers["x-loop"].startswith("ringloop")
                assert await answer.text() == f"{number}"

        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for number in range(COUNT):
                group.create_task(ask(session, number))
    run(main())


def test_echoes_a_thousand_messages(port: int, run: Run) -> None:
    async def main() -> None:
        async with websockets.connect(f"ws://127.0.0.1:{port}/") as socket:
            for number in range(COUNT):
                await socket.send(f"message {number}")
                assert await socket.recv() == f"message {number}"
    run(main())
