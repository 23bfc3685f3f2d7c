"""Entry points: run(), install(), python -m ringloop."""
from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import ringloop


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


def test_python_m_ringloop_says_in_a_sentence_that_there_is_no_such_file() -> None:
    """It was runpy's traceback."""
    done = subprocess.run([sys.executable, "-m", "ringloop", "nowhere.py"],
                          capture_output=True, text=True, check=False, timeout=60)
    said = "python -m ringloop: there is no file nowhere.py\n"
    assert (done.returncode, done.stderr) == (2, said)
