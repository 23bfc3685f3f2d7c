"""Debug mode across the languages: long native steps, creation sites, RINGLOOP_DEBUG."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest
import ringloop
from harness import loops
from harness.extensions import load
from harness.loops import Run

calls = load("bridge_calls")
BUSY_US = 30_000
LIMIT_S = 0.02


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What asyncio's logger has said of native steps."""
    lines: list[str] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "native coroutine" in record.getMessage():
                lines.append(record.getMessage())

    handler = Note()
    logging.getLogger("asyncio").addHandler(handler)
    yield lines
    logging.getLogger("asyncio").removeHandler(handler)


def here() -> int:
    return sys._getframe(1).f_lineno


async def reported(said: list[str]) -> None:
    for _ in range(10):
        if said:
            return
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("name", "make"), (
    ("spin_held", lambda: calls.spin_held(BUSY_US)),
    ("spin_released", lambda: calls.spin_released(BUSY_US)),
    ("burn", lambda: calls.burn(BUSY_US, False)),
    ("burn", lambda: calls.burn(BUSY_US, True)),
    ("burn_in_group", lambda: calls.burn_in_group(BUSY_US)),
    ("burning", lambda: anext(calls.burning(BUSY_US)))))
def test_a_long_native_step_is_told_with_its_name_and_its_origin(
        on_host: Run, said: list[str], name: str, make: Callable[[], Any]) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = LIMIT_S
        made, line = make(), here()
        await made
        await reported(said)
        assert len(said) == 1
        told = re.match(r"Executing a step of native coroutine '(\w+)' took (0\.\d{3}) seconds\n"
                        r"Awaitable created at \(most recent call last\)\n", said[0])
        assert told is not None and told[1] == name and float(told[2]) >= LIMIT_S
        assert f'File "{__file__}", line {line}, in main\n' in said[0]

    on_host(main(), debug=True)


def test_short_steps_and_other_modes_are_silent(on_host: Run, said: list[str]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = LIMIT_S
        await calls.burn(BUSY_US, False)            # not in debug mode
        loop.set_debug(True)
        await asyncio.sleep(0.001)
        loop.slow_callback_duration = 60
        await calls.burn(BUSY_US, False)
        loop.slow_callback_duration = LIMIT_S
        await calls.wait(1, "short")
        loop.set_debug(False)
        await asyncio.sleep(0.001)
        await calls.burn(BUSY_US, False)
        await asyncio.sleep(0.005)
        assert said == []

    on_host(main(), debug=False)


def test_a_step_that_leads_to_python_code_is_told_once_each(on_host: Run, said: list[str]) -> None:
    async def main() -> None:
        # Far from what a busy host makes of the steps that do nothing.
        asyncio.get_running_loop().slow_callback_duration = 5 * LIMIT_S

        async def inner(_: int) -> int:
            await calls.burn(5 * BUSY_US, False)
            return 1

        assert await calls.sum([1], inner) == 1
        await reported(said)
        assert len(said) == 1 and "'burn'" in said[0]

    on_host(main(), debug=True)


PROGRAM = """
import asyncio, logging, sys
import ringloop
from harness.extensions import load
calls = load("bridge_calls")

async def main():
    asyncio.get_running_loop().slow_callback_duration = 0.02
    await calls.burn(30_000, False)
    await asyncio.sleep(0.005)
    calls.nothing()
    return asyncio.get_running_loop().get_debug()

logging.basicConfig(stream=sys.stdout)
for name in sys.argv[1:]:
    loop = __import__(name).new_event_loop()
    print("debug", name, loop.run_until_complete(main()), flush=True)
    loop.close()
"""


@pytest.mark.parametrize("value", ["1", "0"])
def test_the_environment_turns_debug_mode_on(value: str) -> None:
    hosts = [name for name in ("asyncio", "uvloop") if name in loops.HOSTS] + ["ringloop"]
    around = {name: given for name, given in os.environ.items()
              if name not in ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE")}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM, *hosts], capture_output=True, text=True,
        check=True, env=around | {"RINGLOOP_DEBUG": value,
                                  "PYTHONPATH": os.pathsep.join(sys.path)})
    on = value == "1"
    assert done.stdout.count("Executing a step of native coroutine 'burn'") == on * len(hosts)
    assert done.stderr.count("Awaitable 'nothing' was never awaited\n") == len(hosts)
    assert done.stderr.count("created at (most recent call last)") == on * len(hosts)
    # Of a loop that is not ours the native half alone.
    assert [line for line in done.stdout.splitlines() if line.startswith("debug ")] == [
        f"debug {name} {on and name == 'ringloop'}" for name in hosts]


def test_a_loop_that_cannot_say_whether_it_debugs_is_told_of(
        monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop(asyncio.SelectorEventLoop):
        broken = False

        def get_debug(self) -> bool:
            if self.broken:
                raise LookupError("no mode")
            return super().get_debug()

    async def main() -> None:
        assert await calls.add(0) == 10             # all is there that an await needs
        work = calls.add(1)
        loop.broken = True
        assert await work == 11
        loop.broken = False

    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: told.append(about.exc_type))
    loop = Loop()
    loop.set_debug(True)
    loop.run_until_complete(main())
    loop.close()
    assert told == [LookupError]
