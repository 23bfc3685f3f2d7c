"""What the machine must have: Debian's packages, a compiler, Python interpreters with headers.

Installs only what is missing, with `apt-get update` at most once a run; without root, sudo or
apt-get it names what is missing in one sentence. Never removes or upgrades anything.
"""
from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import subprocess
from pathlib import Path

from output import Problem, environment, run, say

# The first that is there is taken: that with the recorded figures, then the newer ones.
SUPPORTED = ("3.13", "3.15", "3.14", "3.12", "3.11")

BUILD = ("g++", "cmake", "ninja-build", "pkg-config", "liburing-dev", "python3", "python3-dev",
         "python3-venv", "libtbb-dev", "libopenblas-dev", "libjpeg62-turbo-dev",
         "libssl-dev")
TEST = ("catch2", "strace", "git", "openssl", "libboost-dev",
        "libasio-dev", "libuv1-dev",        # what the interop headers are tested with
        "netbase")     # /etc/services: names of ports

_updated = False


def _missing(packages: tuple[str, ...]) -> list[str]:
    answer = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *packages],
                            capture_output=True, text=True, check=False).stdout
    have = {line.split()[0] for line in answer.splitlines() if line.endswith("ok installed")}
    return [package for package in packages if package not in have]


def install(packages: tuple[str, ...]) -> None:
    """Sees to it that Debian's `packages` are there. On other systems only tools are checked."""
    global _updated
    if shutil.which("dpkg-query") is None or shutil.which("apt-get") is None:
        _check_tools("your system's package manager has it")
        return
    missing = _missing(packages)
    if not missing:
        return
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    names = " ".join(missing)
    if prefix and shutil.which("sudo") is None:
        raise Problem(f"missing packages; as root: apt-get install {names}")
    say(f"installing Debian packages: {names}")
    env = environment(DEBIAN_FRONTEND="noninteractive")
    if not _updated:
        run([*prefix, "apt-get", "update", "-q"], env=env, check="apt-get update failed")
        _updated = True
    run([*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q",
         "--no-install-recommends", *missing], env=env, check="apt-get install failed")
    _check_tools("apt-get install g++ cmake ninja-build")


def _check_tools(advice: str) -> None:
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++", "c++")):
        raise Problem(f"no C++ compiler found (g++ 12, clang 14 or newer): {advice}")
    for name in ("cmake", "ninja"):
        if shutil.which(name) is None:
            raise Problem(f"{name} is not installed: {advice}")


@dataclasses.dataclass(frozen=True)
class Interpreter:
    version: str   # "3.13"
    path: str      # real executable


_PROBE = """
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path('include'), 'Python.h')
print(os.path.exists(header), '%d.%d' % sys.version_info[:2],
      int(bool(sysconfig.get_config_var('Py_GIL_DISABLED'))), sys.executable)
"""


def probe(path: str) -> Interpreter | str:
    """The interpreter at `path`, or why it can't be used. A shim that selects nothing can't."""
    try:
        answer = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True,
                                check=False, timeout=60, env=environment())
    except OSError as error:
        return str(error)
    if answer.returncode != 0:
        return (answer.stderr.strip().splitlines() or ["does not run"])[-1]
    headers, version, free_threaded, executable = answer.stdout.split(maxsplit=3)
    if headers != "True":
        return "has no headers (Python.h)"
    if free_threaded == "1":
        return "is a free-threaded build, which ringloop does not support yet"
    return Interpreter(version, os.path.realpath(executable.strip()))


def _candidates(version: str) -> list[str]:
    name = f"python{version}"
    folders = os.environ.get("PATH", "").split(os.pathsep)
    found = [os.path.join(folder, name) for folder in folders
             if os.access(os.path.join(folder, name), os.X_OK)]
    found += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/{name}")),
                    key=lambda path: [int(n) for n in Path(path).parts[-3].split(".")
                                      if n.isdigit()], reverse=True)
    return found + ["/usr/bin/python3"]


def interpreters() -> list[Interpreter]:
    """One usable interpreter for each supported version that the machine has, in that order."""
    found = []
    for version in SUPPORTED:
        for path in _candidates(version):
            answer = probe(path) if os.path.exists(path) else "does not exist"
            if isinstance(answer, Interpreter) and answer.version == version:
                found.append(answer)
                break
    return found


def choose(wish: str | None) -> list[Interpreter]:
    """`wish`: None (PYTHON= or the first), a version, a path, or "all"."""
    wish = wish or os.environ.get("PYTHON")
    if wish and wish != "all" and not wish.startswith("3."):
        answer = probe(shutil.which(wish) or wish)
        if isinstance(answer, str):
            raise Problem(f"the interpreter {wish}: {answer}")
        return [answer]
    found = interpreters()
    if wish and wish != "all":
        found = [each for each in found if each.version == wish]
    if not found:
        raise Problem(f"no usable Python {wish or ' or '.join(SUPPORTED)} with headers was found: "
                      "apt-get install python3-dev python3-venv, or set PYTHON=/path/to/python")
    return found if wish == "all" else found[:1]
