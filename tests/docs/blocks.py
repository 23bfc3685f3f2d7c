"""The fenced blocks of the prose, with the directive that may stand before each.

    <!-- test: serves 8080 -->      a C++ or Python program that serves until SIGINT
    <!-- test: fragment -->         compiled only (C++), or compiled but not run (Python)

Without one, a `python` block runs as a program of its own and a `cpp` block is compiled and run;
`sh` blocks are checked line by line against ./dev. Other languages (text, …) are for reading.
"""
from __future__ import annotations

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROSE = ("README", "ARCHITECTURE", "CONTRIBUTING", "DECISIONS", "CHANGELOG", "SECURITY")
_BLOCK = re.compile(r"(?:<!-- test: ([^>]*?) -->\s*\n)?```(\w*)\n(.*?)^```$",
                    re.DOTALL | re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    file: str
    line: int
    language: str
    directive: str
    text: str = dataclasses.field(repr=False)

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"


def blocks(language: str) -> list[Block]:
    found = []
    for name in PROSE:
        path = ROOT / f"{name}.md"
        if not path.exists():
            continue
        text = path.read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start(3)) + 1
            found.append(Block(path.name, line, match[2], match[1] or "", match[3]))
    return [block for block in found if block.language == language]
