"""The report of leaks at the interpreter's end: RINGLOOP_LEAKS=1, and in debug mode."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.extensions import load

FOLDER = Path(load("bridge_memory").__file__).parent
HEAD = "ringloop: alive when the interpreter had ended:"
START = f"""
import asyncio, gc, os, sys
import ringloop
sys.path.append({str(FOLDER)!r})
import bridge_memory as native, bridge_calls as calls
"""
LEAKING = START + """
async def main() -> None:
    for _ in range(3):
        native.hold(native.forever())
    native.hold(calls.count(5))
    await native.nothing()
    native.hold(ringloop.new_event_loop())

asyncio.run(main())
"""
# Everything is used, nothing is kept but by globals, the loop of a thread and what never began.
CLEAN = START + """
import threading, warnings
warnings.simplefilter("ignore")
kept = native.forever()
iterator = calls.count(3)
ring = [native.nothing()]
ring.append(ring)

async def serve(reader, writer):
    writer.write(await reader.read(5))
    writer.close()

async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello")
    assert await reader.read(5) == b"hello"
    async with ringloop.open("/etc/hostname", "rb") as file:
        await file.read()
    global pending
    pending = asyncio.ensure_future(native.forever())
    assert [each async for each in calls.count(3)] == [0, 1, 2]
    await asyncio.sleep(0)

for run in (ringloop.run, asyncio.run):
    run(main())
thread = threading.Thread(target=ringloop.run, args=(main(),))
thread.start()
thread.join()
global_loop = ringloop.new_event_loop()
asyncio.set_event_loop(global_loop)
"""


def ended(program: str, *options: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "RINGLOOP_LEAKS": "", "PYTHONASYNCIODEBUG": "",
                               "PYTHONDEVMODE": "", **environment})
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_what_is_still_alive_is_told_with_its_function() -> None:
    said = ended(LEAKING, RINGLOOP_LEAKS="1").splitlines()
    assert said[-4:] == [HEAD, "  1 ringloop.AsyncIterator made by count",
                         "  3 ringloop.Awaitable made by forever", "  1 loops"]


def test_in_debug_mode_it_is_told_with_its_creation_site() -> None:
    said = ended(LEAKING, "-X", "dev")
    told = said[said.index(HEAD):]
    assert "3 ringloop.Awaitable made by forever\n  created at (most recent call last)\n" in told
    assert 'File "<string>", line 9, in main' in told


@pytest.mark.parametrize("environment", [{"RINGLOOP_LEAKS": "1"}, {"PYTHONASYNCIODEBUG": "1"}])
def test_a_program_that_leaves_nothing_is_silent(environment: dict[str, str]) -> None:
    assert HEAD not in ended(CLEAN, **environment)


@pytest.mark.parametrize("environment", [{}, {"RINGLOOP_LEAKS": "0", "PYTHONASYNCIODEBUG": "1"}])
def test_nothing_is_told_where_nobody_asked(environment: dict[str, str]) -> None:
    assert HEAD not in ended(LEAKING, **environment)


def test_what_a_forked_child_has_of_its_parent_is_no_leak() -> None:
    said = ended(START + """
native.hold(native.forever())
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""", "-W", "ignore", RINGLOOP_LEAKS="1")
    assert said.count(HEAD) == 1
