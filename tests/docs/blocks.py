"""The fenced blocks of the prose, with the directive that may stand before each.

    <!-- test: serves 8080 -->         a C++ or Python program that serves until SIGINT (on a port
                                       that is free, in place of the one in its text)
    <!-- test: extension NAME -->      a C++ extension module of that name
    <!-- test: uses NAME -->           a Python program that imports it; both are on one page
    <!-- test: host -->                a C++ program that hosts Python
    <!-- test: fragment -->            compiled only (C++), or compiled but not run (Python)
    <!-- test: fragment: REASON -->    the same, and the form that docs/ takes; also for `sh`

Without one, a `python` block runs as a program of its own, a `cpp` block is compiled and run, and a
`json` block is read. `sh` blocks of docs/ run; those of the pages in the root build, install and
measure, so they are checked line by line against ./dev. Other languages (text, ...) are for
reading.
"""
from __future__ import annotations

import dataclasses
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_ROOT_PAGES = ("README", "ARCHITECTURE", "CONTRIBUTING", "DECISIONS", "CHANGELOG", "SECURITY")
PROSE = (*(f"{name}.md" for name in _ROOT_PAGES),
         *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
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

    @property
    def is_fragment(self) -> bool:
        return self.directive.partition(":")[0] == "fragment"

    @property
    def in_docs(self) -> bool:
        return self.file.startswith("docs/")


def blocks(*languages: str) -> list[Block]:
    """Those of the languages, or of all."""
    found = []
    for name in PROSE:
        text = (ROOT / name).read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start(3)) + 1
            found.append(Block(name, line, match[2], match[1] or "", match[3]))
    return [block for block in found if not languages or block.language in languages]
