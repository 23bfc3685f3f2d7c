"""The package's names: lazily imported, and all there."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ringloop

# What a program that only runs on the loop does not pay for at its start.
NOT_AT_ONCE = {"dataclasses", "pathlib", "secrets", "ringloop.fs", "ringloop.files",
               "ringloop.memory", "ringloop._stats", "ringloop.handle", "ringloop.policy"}


def test_a_loop_needs_no_more_of_the_package_than_itself() -> None:
    code = ("import json, sys, asyncio; before = set(sys.modules); import ringloop; "
            "ringloop.new_event_loop().close(); "
            "print(json.dumps(list(set(sys.modules) - before)))")     # 3.15's asyncio has pathlib
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path!r}\n"
                           + code], capture_output=True, text=True, timeout=60, check=True)
    found = set(json.loads(done.stdout))
    assert "ringloop.loop" in found and not NOT_AT_ONCE & found


def test_every_public_name_is_there() -> None:
    assert set(ringloop.__all__) <= set(dir(ringloop))
    missing = [name for name in ringloop.__all__ if getattr(ringloop, name, None) is None]
    assert missing == [] and len(set(ringloop.__all__)) == len(ringloop.__all__)
    assert set(ringloop._LAZY) | set(ringloop._SUBMODULES) <= {*ringloop.__all__, "kernels"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ringloop' has no attribute 'nothing'"):
        ringloop.nothing
    with pytest.raises(ImportError, match="nothing"):
        exec("from ringloop import nothing")
