"""The runner that repeats test modules finds what is left each time, and takes caches for none."""
from __future__ import annotations

from pathlib import Path

import pytest

from harness import programs

RUNNER = str(programs.ROOT / "tests" / "soak" / "refcounts.py")
MODULES = {
    "an object": ("kept.append(object())", 1, "blocks: "),
    "a reference": ("ctypes.pythonapi.Py_IncRef(ctypes.py_object(Path))", 1, "references: "),
    "a descriptor": ("os.dup(0)", 1, "descriptors: "),
    "a cache": ("kept[:] = [None] * min(1_000, len(kept) + 300)", 0, "flat: references "),
    "patterns": ("re.compile(os.urandom(8).hex())", 0, "flat: references "),
    "nothing": ("pass", 0, "flat: references "),
    "a failure": ("assert False", 2, "failed: "),
}


@pytest.mark.parametrize("what", MODULES)
def test_a_module_that_leaves_something_each_time_is_told_of(what: str, tmp_path: Path) -> None:
    line, code, told = MODULES[what]
    module = tmp_path / "test_it.py"
    module.write_text("import ctypes, os, re\nfrom pathlib import Path\nkept = []\n"
                      f"def test_it():\n    {line}\n")
    done = programs.here().run(RUNNER, str(module))
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout, done.stdout
