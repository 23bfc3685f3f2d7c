"""The project's own environment: virtual environments in the tree, and builds by preset.

Safe to repeat, and quick when nothing is to do: a virtual environment carries a stamp of what was
installed into it, a build folder one of what it was configured with; ninja does the rest.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import machine
from machine import Interpreter
from output import ROOT, Problem, environment, run, say

# What each requirement file adds; a later one includes the earlier ones.
SETS = {"dev": ("dev",), "demo": ("dev", "demo"), "bench": ("dev", "demo", "bench"),
        "conformance": ("dev", "demo", "conformance"), "programs": ("programs",)}
OPTIONAL = {"bench"}    # each line for itself: what cannot be installed is left out
APART = {"programs"}    # in an environment of its own: its pytest plug-ins would be everybody's


def virtual_environment(interpreter: Interpreter, wanted: str) -> Path:
    """The Python of .venv-<version>, with the requirement files of `wanted` installed."""
    name = f"{wanted}-{interpreter.version}" if wanted in APART else interpreter.version
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / "ringloop-stamp.json"
    files = [ROOT / "requirements" / f"{name}.txt" for name in SETS[wanted]]
    hashes = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    state = {"interpreter": interpreter.path, "installed": {}}
    if stamp.exists() and python.exists():
        state = json.loads(stamp.read_text())
        if state["interpreter"] != interpreter.path:
            state = {"interpreter": interpreter.path, "installed": {}}
    if not state["installed"]:
        say(f"creating {folder.name} with {interpreter.path}")
        shutil.rmtree(folder, ignore_errors=True)
        run([interpreter.path, "-m", "venv", str(folder)], env=environment(),
            check="creating the virtual environment failed")
    for file in files:
        if state["installed"].get(file.name) == hashes[file.name]:
            continue
        say(f"installing {file.relative_to(ROOT)} into {folder.name}")
        if file.stem in OPTIONAL:
            state["refused"] = _install_what_can_be(python, file)
        else:
            run([*_pip_install(python), "-r", str(file)], env=environment(), check="pip failed")
        state["installed"][file.name] = hashes[file.name]
        stamp.write_text(json.dumps(state))
    return python


def _pip_install(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-compile"]


def _install_what_can_be(python: Path, file: Path) -> dict[str, str]:
    """What pip refused, by name, and why. Deleting the virtual environment tries it again."""
    refused = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        wanted = line.partition("#")[0].strip()
        if not wanted:
            continue
        done = subprocess.run([*_pip_install(python), wanted], capture_output=True, text=True,
                              env=environment(), check=False)
        if done.returncode != 0:
            name, _, version = wanted.partition("==")
            refused[name] = _reason(done.stderr, version)
            say(f"without {wanted}: {refused[name]}")
    return refused


def _reason(said: str, version: str) -> str:
    """Out of all that pip says, why it did not install `version`."""
    other = re.search(rf"(?<!\S){re.escape(version)} Requires-Python ([^;\s]+)", said)
    if other is not None:
        return f"version {version} needs Python {other[1]}"
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    return errors[0][:300] if errors else "pip failed"


@dataclasses.dataclass(frozen=True)
class Build:
    preset: str
    folder: Path
    python: Path          # of the virtual environment
    interpreter: Interpreter

    @property
    def package(self) -> Path:
        return self.folder / "pkg"

    def environment(self, **changes: str) -> dict[str, str]:
        """For programs that import the package or run a built test."""
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", "")])
        return environment(PYTHONPATH=str(self.package), PATH=path, RINGLOOP_BUILD=str(self.folder),
                           RINGLOOP_PRESET=self.preset, **changes)


def _presets() -> list[str]:
    listed = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    return [preset["name"] for preset in listed if not preset.get("hidden")]


def build(preset: str, interpreter: Interpreter, wanted: str = "dev", *,
          targets: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> Build:
    """Configures build/<preset>-<version> if needed and builds `targets` (default: everything)."""
    if preset not in _presets():
        raise Problem(f"there is no preset {preset}: {', '.join(_presets())}")
    python = virtual_environment(interpreter, wanted)
    folder = ROOT / "build" / f"{preset}-{interpreter.version}"
    configure = ["cmake", "--preset", preset, "-B", str(folder), "-S", str(ROOT),
                 f"-DPython3_EXECUTABLE={python}", *options]
    stamp = folder / "ringloop-configure.json"
    wish = json.dumps([configure, hashlib.sha256(
        (ROOT / "CMakePresets.json").read_bytes()).hexdigest()])
    if not stamp.exists() or not (folder / "build.ninja").exists() or stamp.read_text() != wish:
        say(f"configuring {folder.relative_to(ROOT)}")
        run(configure, env=environment(), check="cmake failed")
        stamp.write_text(wish)
    say(f"building {folder.relative_to(ROOT)}")
    command = ["ninja", "-C", str(folder), f"-j{os.cpu_count() or 2}"]
    # Builds for several interpreters share what ccache (if it is there) has of the native parts.
    run([*command, *targets], check="the build failed",
        env=environment(CCACHE_NOHASHDIR="1", CCACHE_SLOPPINESS="pch_defines,time_macros"))
    return Build(preset, folder, python, interpreter)


def set_up(wanted: str, packages: tuple[str, ...], wish: str | None) -> list[Interpreter]:
    """Debian's packages, then virtual environments. Returns the interpreters of `wish`."""
    machine.install(packages)
    chosen = machine.choose(wish)
    for interpreter in chosen:
        virtual_environment(interpreter, wanted)
    return chosen
