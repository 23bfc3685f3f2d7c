"""Whether the loop itself keeps anybody waiting: stalls under load, and I/O beside busy callbacks.
"""
from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time

from cells import programs
from cells.loops import Loop, MakeLoop
from cells.model import Figures
from cells.services import Echo

TICK_S = 0.001
BURST = 100_000


def stalls(make: MakeLoop, scale: float) -> Figures:
    """An echo server with 100 connections that ask 20,000 times a second: how late its ticks of a
    millisecond are, at the 99.9th percentile and at worst. Not at real-time priority, of which the
    kernel takes away a twentieth of each second at once."""
    loop = make()
    late = loop.run_until_complete(_ticks_under_load(loop, max(2 * scale, 0.05)))
    loop.close()
    late.sort()
    return {"stall_s": late[min(len(late) - 1, len(late) * 999 // 1000)], "worst_s": late[-1]}


async def _ticks_under_load(loop: Loop, seconds: float) -> list[float]:
    server = await loop.create_server(Echo, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    late: list[float] = []
    words = [f"address={port}", "connections=100", "per_second=20000", "warm_seconds=0.01",
             f"seconds={seconds}"]
    client = subprocess.Popen([programs.load_client(), *words], stdout=subprocess.PIPE, text=True,
                              preexec_fn=programs.pinned(1))
    with client:
        while client.poll() is None:
            due = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            late.append(max(loop.time() - due, 0.0))
        assert client.stdout is not None
        if client.returncode != 0 or json.loads(client.stdout.read())["answers"] == 0:
            raise AssertionError("the load client failed")
    server.close()
    return late


def io_in_burst(make: MakeLoop, scale: float) -> Figures:
    """100,000 callbacks that each call the next one: how many run before a byte that has arrived is
    noticed, in rounds of all of them (1: at the next turn)."""
    loop, burst = make(), round(BURST * scale)
    here, there = socket.socketpair()
    here.setblocking(False)
    ran = sent_at = 0
    rounds: list[float] = []
    over = False

    def busy() -> None:
        nonlocal ran
        ran += 1
        if not over:
            loop.call_soon(busy)

    def send() -> None:
        nonlocal sent_at
        sent_at = ran
        there.send(b"1")

    def readable() -> None:
        nonlocal over
        if here.recv(10) != b"1":
            raise AssertionError("wrong bytes")
        rounds.append((ran - sent_at) / burst)
        over = len(rounds) == 9
        if over:
            loop.remove_reader(here)
            loop.call_soon(loop.stop)
        else:
            loop.call_soon(send)

    loop.add_reader(here, readable)
    for _ in range(burst):
        loop.call_soon(busy)
    loop.call_soon(send)
    begin = time.perf_counter()
    loop.run_forever()
    taken = time.perf_counter() - begin
    loop.close()
    here.close()
    there.close()
    return {"rounds": max(rounds), "wait_s": taken / len(rounds)}
