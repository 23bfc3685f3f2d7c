"""Forks under a foreign loop that runs, while native work is in flight: the child leaves the loop
as it would with Python's own awaits, and the parent notices nothing. The module is
tests/python/extension/ends.cpp."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest
from harness import limits
from harness.extensions import FOLDER
from harness.loops import GUESTS

PROGRAM = f"""
import asyncio, importlib, os, sys
sys.path.append({str(FOLDER)!r})
import ringloop
import bridge_ends as ends

new_loop, way = importlib.import_module(sys.argv[1]).new_event_loop, sys.argv[2]
parent = os.getpid()

async def python():
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0)

async def late():
    try:
        await ends.sleeps(20_000)
    finally:
        try:
            await ends.sleeps(1)
        except RuntimeError as error:
            assert "belongs to the parent" in str(error)

async def main():
    tasks = [asyncio.ensure_future(made) for made in (
        ends.sleeps(20_000), ends.offloads(20_000), late(), ends.awaits(python()))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    pid = os.fork()
    if pid == 0 and way == "exit":
        sys.exit(7)
    if pid == 0:
        return
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    tasks.pop().cancel()
    await asyncio.gather(*tasks)
    print("fine", flush=True)

def run(coroutine):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(coroutine)

run(main())
if os.getpid() != parent:
    if way == "return and run":
        assert run(ends.sleeps(1)) == 1
    sys.exit(7)
"""


# From 3.14.1 on the child has no running loop and no current task (gh-139894): the task that forked
# ends in this report of the host's, with native work or without, and no SystemExit comes out of it.
REPORT = re.compile(r"Exception in callback <_asyncio\.TaskStepMethWrapper [^\n]*\n"
                    r"(?:[^\n]*\n){1,6}?RuntimeError: loop <[^\n]*> is not the running loop\n")
EXIT = pytest.param("exit", marks=pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="sys.exit() in a forked child ends no loop from 3.14.1 on"))


@pytest.mark.parametrize("way", [EXIT, "return", "return and run"])
@pytest.mark.parametrize("host", GUESTS)
def test_a_forked_child_leaves_a_foreign_loop_with_native_work_in_flight(host: str,
                                                                         way: str) -> None:
    """libuv used to abort in it, and asyncio to wait for ever for awaits that it had cancelled."""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM,
                           host, way], capture_output=True, text=True, check=False,
                          timeout=20 * limits.SLOWDOWN)
    said = REPORT.sub("", done.stderr, count=1) if sys.version_info >= (3, 14) else done.stderr
    assert (done.returncode, done.stdout, said) == (0, "fine\n", "")
