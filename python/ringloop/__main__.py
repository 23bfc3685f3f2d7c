"""python -m ringloop program.py args…   runs an asyncio program on ringloop
python -m ringloop -m module args…    the same for a module
python -m ringloop info               says which backend is used, and why"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """The command line, without the program's name."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    if arguments == ["info"]:
        from . import __version__, capabilities

        print(f"ringloop {__version__} on Python {sys.version.split()[0]}")
        print(capabilities())
        print(f"kernels:         {_kernels()}")
        return 0
    return _run(arguments)


def _kernels() -> str:
    try:
        importlib.import_module(".kernels", __package__)
    except ImportError as error:
        return f"not usable: {error}"
    return "usable"


def _run(arguments: list[str]) -> int:
    from .policy import install

    install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            print("python -m ringloop -m: the name of a module is missing", file=sys.stderr)
            return 2
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif not Path(arguments[0]).exists():
        print(f"python -m ringloop: there is no file {arguments[0]}", file=sys.stderr)
        return 2
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
