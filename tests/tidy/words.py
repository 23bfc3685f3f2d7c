"""Words and calls that do not belong in the tree, and files that do not."""
from __future__ import annotations

import ast
import re
from typing import Iterator

from tidy.source import Finding, Source

# Split so that this file does not find itself.
_WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b|(?<![\w.])/wo" r"rk/"
                    r"|\bpypi\.o" r"rg\b|files\.python" r"hosted")
_CPP_BANNED = re.compile(
    r"(?<![\w.>:])(?:std::)?(printf|fprintf|puts|sprintf|strcpy|strcat|strtok|gets|rand|srand|exit|"
    r"abort|alloca|setjmp|longjmp|system)\s*\(|\bstd::(cout|cerr|clog|endl)\b|\bsleep_for\b"
    r"|(?<!asm )\bvolatile\b")
_HEADER_BANNED = re.compile(r"^\s*using\s+namespace\b")
_LIBRARY = ("runtime/", "bridge/", "kernels/", "python/native/")
_PYTHON_BANNED = {"eval", "exec", "breakpoint", "input"}

# Folders and the kinds of files that live there; what matches none of them is stray.
ALLOWED_FILES = (
    r"(README|ARCHITECTURE|CONTRIBUTING|DECISIONS|CHANGELOG|SECURITY)\.md|LICENSE|dev|\.ci/run",
    r"CMakeLists\.txt|CMakePresets\.json|pyproject\.toml|\.clang-format|\.gitignore|\.clang-tidy",
    r"cmake/(python/)?[\w-]+\.(cmake|cmake\.in|pc\.in|map)|runtime/exports\.map",
    r"requirements/\w+\.txt|tests/fuzz/seeds/\w+\.txt",
    r"tools/dev/\w+\.py",
    r"(runtime|bridge|kernels)/CMakeLists\.txt",
    r"(runtime|bridge|kernels)/include/ringloop/[\w/]+\.hpp",
    r"bridge/include/ringloop/(capi|handle|hooks)\.h",
    r"(runtime|bridge|kernels)/src/[\w/]+(\.cpp|\.hpp|/CMakeLists\.txt)",
    r"python/native/([\w/]+/)?([\w]+\.(cpp|hpp)|CMakeLists\.txt)",
    r"python/ringloop/[\w/]+\.pyi?|python/ringloop/py\.typed",
    r"tests/([\w/]+/)?(\w+\.(py|cpp|hpp|c)|CMakeLists\.txt|[lt]san\.supp)",
    r"tests/conformance/(\w+/[\w.]+\.toml|README\.md)",
    r"bench/([\w/]+/)?(\w+\.(py|cpp|hpp)|CMakeLists\.txt)",
    r"bench/results/[\w.-]+\.(json|md|svg|png|txt)",
    r"examples/([\w/-]+/)?(\w+\.(py|cpp|hpp)|CMakeLists\.txt|README\.md)",
    r"examples/extension/pyproject\.toml",
    r"docs/[\w-]+\.(md|svg|png)",
)


def words(source: Source) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, 1):
        match = _WORDS.search(line)
        if match is not None:
            yield from source.finding(number, "words", f"{match.group()!r} does not belong in the "
                                                       "tree: do it, or write an issue")


def banned_calls(source: Source) -> Iterator[Finding]:
    if source.is_cpp and source.path.startswith(_LIBRARY):
        yield from _banned_in_cpp(source)
    elif source.path.startswith("python/ringloop/") and source.path.endswith(".py"):
        yield from _banned_in_package(source)
    elif source.path.startswith("tests/") and source.path.endswith(".py"):
        for number, line in enumerate(source.lines, 1):
            if re.match(r"[^#\"']*\btime\.sleep\(", line):
                yield from source.finding(number, "banned", "time.sleep: wait for the event itself")


def _banned_in_cpp(source: Source) -> Iterator[Finding]:
    for number, line in enumerate(source.code_lines, 1):
        match = _CPP_BANNED.search(line)
        if match is not None:
            yield from source.finding(number, "banned", f"{match.group().strip('( ')} in a library")
        if source.path.endswith(".hpp") and _HEADER_BANNED.match(line):
            yield from source.finding(number, "banned", "using namespace in a header")
    if source.path.endswith(".hpp") and "#pragma once" not in source.text:
        yield from source.finding(1, "banned", "a header without #pragma once")


def _banned_in_package(source: Source) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield from source.finding(node.lineno, "banned", "a bare except swallows everything")
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            banned = _PYTHON_BANNED | (set() if source.path.endswith("__main__.py") else {"print"})
            if node.func.id in banned:
                yield from source.finding(node.lineno, "banned", f"{node.func.id}() in the package")
        elif ast.unparse(node.func) == "time.sleep":
            yield from source.finding(node.lineno, "banned", "time.sleep() blocks the loop")


def stray_files(paths: list[str]) -> Iterator[Finding]:
    for path in paths:
        if not any(re.fullmatch(pattern, path) for pattern in ALLOWED_FILES):
            yield Finding(path, 1, "stray", "this kind of file has no place here; see "
                                            "ALLOWED_FILES in tests/tidy/words.py")
