"""The stall detector: which spans are told, and what they went to."""
from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from harness.loops import Run
from harness.tcp import attach, tcp_pair

BUSY_S, LIMIT_S = 0.15, 0.1         # far from what a busy host makes of a turn


def told(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records
            if "did not look at its I/O" in record.getMessage()]


def longest(report: str) -> tuple[str, float]:
    """The part that comes first, and its milliseconds."""
    found = re.search(r"ms: ([a-zA-Z ]+) ([0-9.]+) ms", report)
    assert found is not None, report
    return found[1], float(found[2])


def block() -> None:
    end = time.perf_counter() + BUSY_S
    while time.perf_counter() < end:
        pass


def test_nothing_is_told_unless_it_is_asked_for(run: Run, caplog: Any) -> None:
    async def main() -> None:
        assert asyncio.get_running_loop().stall_limit is None
        block()
        await asyncio.sleep(0)

    run(main(), debug=False)
    assert told(caplog) == []


def test_a_slow_callback_is_told_once_with_what_it_was(run: Run, caplog: Any) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.stall_limit = LIMIT_S
        assert loop.stall_limit == LIMIT_S
        await asyncio.sleep(0.01)
        block()
        await asyncio.sleep(0.01)
        loop.stall_limit = None
        block()
        await asyncio.sleep(0.01)

    run(main(), debug=False)
    report, = told(caplog)
    part, milliseconds = longest(report)
    assert part == "callbacks and tasks" and milliseconds >= BUSY_S * 1e3 * 0.9


def test_a_slow_protocol_is_told_as_one(run: Run, caplog: Any) -> None:
    class Slow(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            block()
            done.set()

    async def main() -> None:
        asyncio.get_running_loop().stall_limit = LIMIT_S    # type: ignore[attr-defined]
        with tcp_pair() as (near, far):
            transport, _ = await attach(near, Slow)
            far.sendall(b"x")
            await done.wait()
            await asyncio.sleep(0.01)
            transport.abort()
            await asyncio.sleep(0.01)

    done = asyncio.Event()
    run(main(), debug=False)
    assert [longest(report)[0] for report in told(caplog)] == ["protocols and completions"]


def keeps_the_gil(seconds: float) -> Any:
    """One call that takes about as long, and gives the GIL to nobody meanwhile."""
    power = 500_000
    while True:
        begin = time.perf_counter()
        assert 7 ** power % 11 >= 0
        if time.perf_counter() - begin >= seconds:
            return lambda: 7 ** power % 11
        power *= 2


def test_a_thread_that_keeps_the_gil_is_told_as_that(run: Run, caplog: Any) -> None:
    call, waiting = keeps_the_gil(3 * LIMIT_S), threading.Event()

    def compute() -> None:
        waiting.wait()
        call()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.stall_limit = LIMIT_S      # type: ignore[attr-defined]
        thread = threading.Thread(target=compute)
        thread.start()
        loop.call_soon(waiting.set)     # and then the loop waits, and lets it begin
        while thread.is_alive():
            await asyncio.sleep(0.001)

    run(main(), debug=False)
    assert "waiting for the GIL" in {longest(report)[0] for report in told(caplog)}


@pytest.mark.parametrize("wrong", [0, -1, "1", True, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(run: Run, wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="stall_limit is a positive number of seconds"):
            asyncio.get_running_loop().stall_limit = wrong  # type: ignore[attr-defined]

    run(main())


@pytest.mark.parametrize("value, said", [
    ("0.1", "did not look at its I/O for"), ("", ""), ("soon", "RINGLOOP_STALLS is a number of"),
    ("-1", "RINGLOOP_STALLS is a positive number")])
def test_the_environment_sets_it(value: str, said: str) -> None:
    code = ("import asyncio, time, ringloop\n"
            "async def main():\n    time.sleep(0.15)\n    await asyncio.sleep(0.01)\n"
            "ringloop.run(main())\n")
    around = {name: given for name, given in os.environ.items()
              if name not in ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "RINGLOOP_DEBUG")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**around, "RINGLOOP_STALLS": value}, check=False)
    assert said in done.stderr and bool(said) == bool(done.stderr), done.stderr
