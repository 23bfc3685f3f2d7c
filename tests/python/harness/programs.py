"""Runs programs in processes of their own, optionally through tests/faults/launch.py.

A plain user often cannot read the interpreter (a home folder of root's) or the tree: then what it
needs is copied, once a session, to a folder that everybody may read.
"""
from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAUNCH = ROOT / "tests" / "faults" / "launch.py"
PROGRAMS = ROOT / "tests" / "faults" / "programs"
_USELESS = shutil.ignore_patterns("test", "tests", "idlelib", "ensurepip", "site-packages",
                                  "__pycache__", "config-*", "turtledemo", "tkinter")


@dataclasses.dataclass(frozen=True)
class Place:
    """An interpreter, the tree, and the environment in which both work."""

    python: str
    tree: Path
    environment: dict[str, str]

    def run(self, *command: str, launch: tuple[str, ...] = (), timeout_s: float = 60,
            **changes: str) -> subprocess.CompletedProcess[str]:
        line = [self.python, *command]
        if launch:
            line = [sys.executable, str(LAUNCH), *launch, "--", *line]
        return subprocess.run(line, env={**self.environment, **changes}, capture_output=True,
                              text=True, errors="replace", timeout=timeout_s, check=False,
                              cwd="/tmp")

    def program(self, name: str, *arguments: str, **options: object
                ) -> subprocess.CompletedProcess[str]:
        path = self.tree / "tests" / "faults" / "programs" / name
        return self.run(str(path), *arguments, **options)     # type: ignore[arg-type]


def here() -> Place:
    return Place(sys.executable, ROOT, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def everybodys(folder: Path) -> Place:
    """A place that a plain user can use; what must be copied goes to `folder`."""
    folder.chmod(0o755)
    environment = dict(here().environment)
    python = Path(sys.executable).resolve()
    if not _readable(python) or not _readable(Path(os.__file__)):
        python = _copied_interpreter(folder / "python")
        environment["LD_LIBRARY_PATH"] = str(folder / "python" / "lib")
        environment["PYTHONHOME"] = str(folder / "python")
    paths = [Path(path) for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    paths.append(Path(sysconfig.get_path("platlib")))
    tree = ROOT
    if not all(map(_readable, [*paths, ROOT / "tests"])):
        paths = [Path(shutil.copytree(path, folder / f"path{number}"))
                 for number, path in enumerate(paths)]
        tree = folder / "tree"
        for part in ("tests", "examples", "bench", "pyproject.toml"):
            source = ROOT / part
            tree.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, tree / part)
            elif source.exists():
                shutil.copy(source, tree / part)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    environment["HOME"] = "/tmp"
    return Place(str(python), tree, environment)


def _readable(path: Path) -> bool:
    """By somebody who is neither owner nor group."""
    path = path.resolve()
    return path.exists() and all(parent.stat().st_mode & 0o001 for parent in path.parents) and \
        bool(path.stat().st_mode & 0o004)


def _copied_interpreter(folder: Path) -> Path:
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix)
    shutil.copytree(base / "lib" / name, folder / "lib" / name, ignore=_USELESS, symlinks=True)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy(library, folder / "lib")
    (folder / "bin").mkdir()
    return Path(shutil.copy(Path(sys.executable).resolve(), folder / "bin" / name))
