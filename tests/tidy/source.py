"""A file of the tree as the rules see it: its text, and its code without comments and literals.

A rule that must be broken in one place is told so in that line or the one above it:
`tidy-allow: RULE because REASON`. An allowance without a reason does not count.
"""
from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parents[2]
_ALLOW = re.compile(r"tidy-allow: ([\w-]+) because \S+ \S+")
_CPP_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Source:
    path: str          # relative to the root, with slashes
    text: str = dataclasses.field(repr=False)

    @property
    def is_cpp(self) -> bool:
        return self.path.endswith((".cpp", ".hpp", ".h", ".ipp"))

    @property
    def is_python(self) -> bool:
        return self.path.endswith((".py", ".pyi"))

    @functools.cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @functools.cached_property
    def code(self) -> str:
        """C++ text with comments and literals blanked out; lines keep their numbers."""
        def blank(match: re.Match[str]) -> str:
            return re.sub(r"[^\n]", " ", match.group())
        return _CPP_NOISE.sub(blank, self.text) if self.is_cpp else self.text

    @functools.cached_property
    def code_lines(self) -> list[str]:
        return self.code.splitlines()

    def allowed(self, line: int, rule: str) -> bool:
        for number in (line, line - 1):
            if 1 <= number <= len(self.lines):
                match = _ALLOW.search(self.lines[number - 1])
                if match is not None and match.group(1) == rule:
                    return True
        return False

    def finding(self, line: int, rule: str, text: str) -> Iterator[Finding]:
        if not self.allowed(line, rule):
            yield Finding(self.path, line, rule, text)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    return sorted(path for path in listed.split("\0") if path and (ROOT / path).is_file())


def tree() -> list[Source]:
    """Every tracked text file."""
    found = []
    for path in tracked():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            found.append(Source(path, data.decode("utf-8")))
    return found
