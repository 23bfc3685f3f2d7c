"""Extension modules of nanobind's: what only they have. test_bridge.py has what works for both
binding tools.
"""
from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from harness.extensions import FOLDER
from harness.loops import GUESTS

USE = f"""
import asyncio, sys
import ringloop
sys.path.append({str(FOLDER)!r})
import bridge_calls_nanobind as calls

async def main():
    made = [calls.wait(1, "kept"), calls.Session("Ann").greet("Bob"), calls.keep(calls, 1),
            calls.sum([1], lambda value: calls.add(value, 1)),
            calls.reflected(calls.Point(1, 2)),
            calls.fail("own", False), calls.fail("memory", True)]
    kept = await asyncio.gather(*made, return_exceptions=True)
    assert type(kept[-2]) is calls.OwnError and type(kept[-1]) is MemoryError
    async with calls.Session("Ann") as session:
        letters = session.letters()
        assert await anext(letters) == "A"      # and no more of it
    tasks = [asyncio.ensure_future(calls.forever()) for _ in range(3)]
    tasks.append(asyncio.ensure_future(calls.Session("Ann").greet("Bob")))
    await asyncio.sleep(0)
    tasks[0].cancel()
    return made, kept, letters, tasks
"""


def said_at_exit(program: str) -> str:
    # A sanitizer would tell the leak that is made on purpose, too.
    done = subprocess.run([sys.executable, "-c", USE + textwrap.dedent(program)],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_nothing_of_nanobind_s_is_left_at_exit() -> None:
    assert said_at_exit(f"""
        import importlib
        kept = []
        for host in {("ringloop", *GUESTS)}:
            new_loop = importlib.import_module(host).new_event_loop
            with asyncio.Runner(loop_factory=new_loop) as runner:
                kept.append(runner.run(main()))
    """) == ""


def test_nothing_is_left_of_what_is_in_flight_at_exit() -> None:
    """A loop of uvloop's that nobody closed keeps its tasks, Python's own too."""
    assert "nanobind" not in said_at_exit("""
        for host in (asyncio, ringloop):
            loop = host.new_event_loop()
            kept = loop.run_until_complete(main())
    """)


def test_a_leak_would_be_told() -> None:
    """What the two above listen for."""
    assert "nanobind: leaked 1 instances!" in said_at_exit("""
        import ctypes
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(calls.Session("Ann")))
    """)
