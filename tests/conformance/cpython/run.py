"""CPython's own test.test_asyncio on ringloop's loop, against the list of what must pass.

    run.py [--json FILE] [--update] [--modules a,b] [--launch "--deny-uring EPERM"]

Run by the interpreter under test, with the package importable (harness.py does the work). The list
is the file MAJOR.MINOR.toml beside this one.
"""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import harness  # noqa: E402

LONGEST_FIRST = ("test_tasks", "test_subprocess", "test_ssl", "test_events")


def suite() -> harness.Suite:
    made = harness.Suite(HERE / "child.py",
                         HERE / f"{sys.version_info[0]}.{sys.version_info[1]}.toml", [])
    package = importlib.util.find_spec("test.test_asyncio")
    if package is None or package.submodule_search_locations is None:
        sys.exit("this interpreter came without its test package")
    folder = Path(next(iter(package.submodule_search_locations)))
    names = {path.stem for path in folder.glob("test_*.py")} - set(made.expected["not_run"])
    made.names = sorted(names | set(made.expected["modules"]),
                        key=lambda name: (name not in LONGEST_FIRST, name))
    return made


if __name__ == "__main__":
    sys.exit(harness.main(suite(), harness.parser(__doc__ or "").parse_args()))
