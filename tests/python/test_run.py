"""Entry points: run(), install(), python -m ringloop; and what the loop does not carry yet."""
from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import ringloop
from harness.loops import Run


async def kind_of_loop() -> type:
    return type(asyncio.get_running_loop())


def test_run_gives_the_result_and_uses_a_loop_of_ours():
    assert ringloop.run(kind_of_loop()) is ringloop.EventLoop
    assert ringloop.run(kind_of_loop(), loop_factory=asyncio.SelectorEventLoop) \
        is asyncio.SelectorEventLoop


@pytest.mark.parametrize("wrong", [3, None, kind_of_loop])
def test_run_inside_a_loop_says_so_whatever_it_is_given(wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="cannot be called from a running event loop"):
            ringloop.run(wrong)
        with pytest.raises(RuntimeError, match="cannot be called from a running event loop"):
            ringloop.run(kind_of_loop())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ringloop.run(main())


def test_python_m_ringloop_runs_a_program_with_its_arguments_and_exit_code(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, sys\n"
        "async def main(): return type(asyncio.get_running_loop()).__module__\n"
        "print(asyncio.run(main()), sys.argv[1:], __name__)\n"
        "sys.exit(3)\n")
    done = subprocess.run([sys.executable, "-m", "ringloop", str(program), "a", "-m"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (3, "ringloop.loop ['a', '-m'] __main__\n"), done


@pytest.mark.parametrize(("what", "word"), [
    (lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol,
                                                local_addr=("127.0.0.1", 0)), "UDP"),
    (lambda loop: loop.create_unix_connection(asyncio.Protocol, "/nowhere"), "Unix sockets"),
    (lambda loop: loop.create_unix_server(asyncio.Protocol, "/nowhere"), "Unix sockets"),
    (lambda loop: loop.connect_read_pipe(asyncio.Protocol, None), "pipes"),
    (lambda loop: loop.connect_write_pipe(asyncio.Protocol, None), "pipes"),
])
def test_what_is_not_there_yet_says_so_and_leaves_nothing_open(
    run: Run, what: Any, word: str
) -> None:
    async def main() -> None:
        with pytest.raises(NotImplementedError, match=f"does not carry {word} yet"):
            await what(asyncio.get_running_loop())

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(main())
    assert not [str(each.message) for each in said]
