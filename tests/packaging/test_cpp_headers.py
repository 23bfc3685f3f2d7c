"""The public headers: the one that includes them all does, and each compiles by itself."""
from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.commands import BUILD_LIMIT_S, ROOT

INCLUDE = ROOT / "runtime" / "include"
PUBLIC = sorted(path for path in INCLUDE.rglob("*.hpp") if "detail" not in path.parts)

# What ringloop.hpp leaves out, and why. A name that ends in "/" means everything below.
APART = {
    "ringloop/ringloop.hpp": "itself",
    "ringloop/interop/": "what needs Asio, libuv or oneTBB, each included by itself",
    "ringloop/kernel_abi.hpp": "numbers of the kernel's, for drivers and their tests",
    "ringloop/testing/": "a library of its own: the component testing",
}


def name(path: Path) -> str:
    return str(path.relative_to(INCLUDE))


def test_the_one_header_includes_every_public_one() -> None:
    text = (INCLUDE / "ringloop" / "ringloop.hpp").read_text()
    included = set(re.findall(r'^#include "([^"]+)"', text, re.MULTILINE))
    wanted = {name(path) for path in PUBLIC if not any(
        name(path) == apart or apart.endswith("/") and name(path).startswith(apart)
        for apart in APART)}
    assert included == wanted


@pytest.mark.skipif(os.environ.get("RINGLOOP_TEST_ALL") != "1",
                    reason="a long test: ./dev test --all")
@pytest.mark.time_limit(BUILD_LIMIT_S)
def test_every_public_header_compiles_by_itself() -> None:
    def compiles(path: Path) -> str:
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
                   "-Wpedantic", "-Werror", "-DRINGLOOP_TLS", f"-I{INCLUDE}", "-x", "c++", "-"]
        return subprocess.run(command, input=f'#include "{name(path)}"\n' * 2, text=True,
                              capture_output=True, check=False).stderr
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        faults = [fault for fault in threads.map(compiles, PUBLIC) if fault]
    assert not faults, "\n".join(faults)[:6000]


def test_tls_without_its_library_says_what_to_link() -> None:
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
    done = subprocess.run(command, input="#include <ringloop/net/tls.hpp>\n", text=True,
                          capture_output=True, check=False)
    assert done.returncode != 0 and "link ringloop::tls" in done.stderr
