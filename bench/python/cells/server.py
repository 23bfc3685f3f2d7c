"""A program: the services of a cell on one loop, pinned to core 0, as long as its parent lives.

    server.py LOOP FOLDER SERVICE…      prints one line of JSON: each service's address or failure
"""
from __future__ import annotations

import asyncio
import ctypes
import json
import resource
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cells import loops, programs, services  # noqa: E402


async def start(folder: Path, names: list[str]) -> dict[str, dict[str, str]]:
    known, found = services.all_services(folder), {}
    for name in names:
        try:
            found[name] = {"address": await known[name]()}
        except Exception as error:      # a rival's failure is a result
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def end_with_parent() -> None:
    """However it ends; a thread that waits for it would be a guest in every measurement."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    end_with_parent()
    programs.pin({0})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    name, folder, *names = sys.argv[1:]
    loop = loops.maker(name)()
    print(json.dumps(loop.run_until_complete(asyncio.wait_for(start(Path(folder), names), 10))),
          flush=True)
    loop.run_forever()


if __name__ == "__main__":
    main()
