"""Two loops that want one descriptor: what comes of it under asyncio, uvloop and ringloop.

conflict.py [--loop ringloop|uvloop|asyncio] [--rounds N]

A compute library with a loop of its own waits for the same sockets as the program's loop, and
blocks the thread while it does. It looks for an epoll set that watches the socket already, to join
it: there the second registration fails with errno 17. It finds none of a loop on a ring, and
ringloop.fdinfo() tells it whose a set is. Then a watched duplicate is closed, in a process of its
own: libuv aborts.

Says what went wrong how often, last in one line: conflicts=0.
"""
from __future__ import annotations

import argparse
import asyncio
import errno
import importlib
import os
import resource
import select
import socket
import subprocess
import sys
from typing import Callable

import ringloop


class ComputeLoop:
    """Stands for a native library's: an epoll set, and a call that blocks until it is woken."""

    def __init__(self) -> None:
        self.woken = 0
        self.refused = 0
        self._own = select.epoll()

    def run_sync(self, sock: socket.socket) -> None:
        if not self._join(sock):
            self._own.register(sock, select.EPOLLIN)
        self.woken += len(self._own.poll(5))
        self._own.unregister(sock)

    def _join(self, sock: socket.socket) -> bool:
        """Registers the socket where it is watched already, if that is no loop of ringloop's."""
        for entry in ringloop.fdinfo(sock).epolls:
            if entry.loop is not None:          # one awaits on that loop instead
                continue
            with select.epoll.fromfd(os.dup(entry.epoll_fd)) as foreign:
                try:
                    foreign.register(sock, select.EPOLLIN)
                except OSError as error:
                    if error.errno != errno.EEXIST:
                        raise
                    self.refused += 1
        return False

    def close(self) -> None:
        self._own.close()


async def rounds(count: int) -> int:
    """The loop watches a socket, the compute loop waits for it in between: the conflicts."""
    loop = asyncio.get_running_loop()
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    compute = ComputeLoop()
    woken = 0
    arrived: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        nonlocal woken
        woken += 1
        ours.recv(1)
        arrived.set_result(None)

    loop.add_reader(ours, readable)
    await asyncio.sleep(0.01)                   # uvloop registers it when it polls
    for _ in range(count):
        arrived = loop.create_future()
        peer.send(b"x")
        compute.run_sync(ours)
        await arrived
    watched_twice = ringloop.compat.detect_foreign_epoll()
    loop.remove_reader(ours)
    for end in (ours, peer, compute):
        end.close()
    print(f"joining the loop's epoll set: {compute.refused} of {count} refused with errno 17")
    print(f"wake-ups of {count}: {woken} of the loop, {compute.woken} of the compute loop")
    print(f"watched by a foreign epoll set, too: {[str(each) for each in watched_twice]}")
    return compute.refused + abs(woken - count) + abs(compute.woken - count)


async def close_a_watched_duplicate() -> None:
    loop = asyncio.get_running_loop()
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    loop.set_exception_handler(lambda _, context: print(f"  told: {context['message']}"))
    arrived = loop.create_future()
    copy = os.dup(ours.fileno())
    loop.add_reader(ours, lambda: ours.recv(1) and arrived.set_result(None))
    loop.add_reader(copy, lambda: None)
    os.close(copy)                              # before the loop turns: uvloop has not polled yet
    peer.send(b"x")
    await arrived
    await asyncio.sleep(0.01)
    loop.remove_reader(copy)
    loop.remove_reader(ours)
    ours.close()
    peer.close()


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    made: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(name).new_event_loop
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=["ringloop", "uvloop", "asyncio"], default="ringloop")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--duplicate", action="store_true", help="close a watched duplicate")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory(given.loop)) as runner:
        if given.duplicate:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            runner.run(close_a_watched_duplicate())
            return
        conflicts = runner.run(rounds(given.rounds))
    sys.stdout.flush()
    again = [sys.executable, __file__, "--loop", given.loop, "--duplicate"]
    status = subprocess.run(again, check=False, stderr=subprocess.DEVNULL).returncode
    print(f"a watched duplicate is closed: the process ends with {status}")
    print(f"conflicts={conflicts + (status != 0)}")


if __name__ == "__main__":
    main()
