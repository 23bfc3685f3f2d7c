"""C sources compiled in a test against the headers that the package ships, as other libraries do:
extension modules and programs that link nothing of ringloop."""
from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest

import ringloop

_STRICT = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wno-sign-conversion",
           "-Wshadow", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Werror"]


@functools.cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="ringloop-compiled-")
    atexit.register(made.cleanup)
    return Path(made.name)


def _compile(source: str, suffix: str, arguments: list[str]) -> Path:
    number = len(list(_folder().iterdir()))
    path, built = _folder() / f"source-{number}{suffix}", _folder() / f"built-{number}"
    path.write_text(source)
    compiler = os.environ.get("CC", "cc") if suffix == ".c" else os.environ.get("CXX", "c++")
    done = subprocess.run(
        [compiler, *_STRICT, f"-I{ringloop.get_include()}", *arguments, str(path), "-o",
         str(built)], capture_output=True, text=True, check=False,
        env={key: value for key, value in os.environ.items()
             if key not in ("LD_PRELOAD", "ASAN_OPTIONS")})
    assert done.returncode == 0, done.stderr
    return built


def python_headers() -> str:
    """Their folder. Skips where this user, or this machine, has none."""
    headers = sysconfig.get_paths()["include"]
    if not os.access(Path(headers, "Python.h"), os.R_OK):
        pytest.skip("this user cannot read Python's headers")
    return headers


@functools.cache
def program(source: str, standard: str = "c99") -> Path:
    """A program of one file; it stays for the process's life."""
    return _compile(source, ".c" if standard.startswith("c9") else ".cpp", [f"-std={standard}"])


@functools.cache
def module(source: str, name: str) -> Any:
    """An extension module of one C file, loaded: once a process, since nobody unloads one."""
    headers = python_headers()
    built = _compile(source, ".c", ["-shared", "-fPIC", f"-isystem{headers}"])
    path = built.rename(built.with_name(f"{name}.so"))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
