"""Limits: 100 columns, 70 lines a function, 800 lines a file; a file opens with its contract."""
from __future__ import annotations

import ast
import itertools
import re
from typing import Iterator

from tidy.source import Finding, Source

COLUMNS = 100
FUNCTION_LINES = 70
FILE_LINES = 800
_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern|export)\b")


def columns(source: Source) -> Iterator[Finding]:
    if not (source.is_cpp or source.is_python or source.path in ("dev", ".ci/run")):
        return
    for number, line in enumerate(source.lines, 1):
        if len(line) > COLUMNS:
            yield from source.finding(number, "columns", f"{len(line)} columns, {COLUMNS} allowed")
        if line != line.rstrip():
            yield from source.finding(number, "columns", "white space at the end of the line")


def file_length(source: Source) -> Iterator[Finding]:
    if len(source.lines) > FILE_LINES and (source.is_cpp or source.is_python):
        yield from source.finding(1, "file-length",
                                  f"{len(source.lines)} lines, {FILE_LINES} allowed")


def function_length(source: Source) -> Iterator[Finding]:
    if source.is_python:
        spans = _python_functions(source)
    elif source.is_cpp:
        spans = _cpp_functions(source.code)
    else:
        return
    for name, first, last in spans:
        length = last - first + 1
        if length > FUNCTION_LINES:
            yield from source.finding(first, "function-length",
                                      f"{name}: {length} lines, {FUNCTION_LINES} allowed")


def _python_functions(source: Source) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def _cpp_functions(code: str) -> Iterator[tuple[str, int, int]]:
    """Outermost function bodies. A brace opens one if what precedes it, since the last statement,
    has a parameter list and names no namespace or type; a type's own braces are looked into."""
    code = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), code)
    depth_inside = 0           # braces open inside a function body; 0: not in one
    start = 0                  # where the current declaration began
    line, first, name = 1, 0, ""
    brackets = 0
    for position, character in enumerate(code):
        if character == "\n":
            line += 1
        elif character in "([":
            brackets += 1
        elif character in ")]":
            brackets -= 1
        elif character == "{" and depth_inside == 0 and brackets == 0:
            head = code[start:position]
            if _opens_function(head):
                depth_inside = 1
                blank = len(head) - len(head.lstrip())
                first = code.count("\n", 0, start + blank) + 1
                before_list = head.split("(")[0].split()
                name = before_list[-1] if before_list else "operator"
            else:
                start = position + 1
        elif character == "{" and depth_inside:
            depth_inside += 1
        elif character == "}":
            if depth_inside:
                depth_inside -= 1
                if depth_inside == 0:
                    yield name, first, line
                    start = position + 1
            elif brackets == 0:
                start = position + 1
        elif character == ";" and depth_inside == 0 and brackets == 0:
            start = position + 1


def _opens_function(head: str) -> bool:
    if "(" not in head:
        return False
    before_list = head.split("(")[0]
    if re.search(r"\b(namespace|enum|extern)\b", before_list):
        return False
    if re.search(r"^\s*(template\s*<[^{]*>\s*)?(class|struct|union)\b", head):
        return False
    # "int x = f() {…" and "x{" initialise; a constructor's ": member{…}" belongs to its function.
    return re.search(r"(?<![=!<>+\-*/|&^%])=(?!=)[^)]*$", before_list) is None \
        or "operator" in before_list


_PUBLIC = re.compile(r"(runtime|bridge|kernels)/include/")


def _says_threads(lines: list[str]) -> bool:
    head = itertools.takewhile(lambda line: line.startswith("//"), lines)
    return re.search(r"thread|GIL", "\n".join(head), re.IGNORECASE) is not None


def contract(source: Source) -> Iterator[Finding]:
    """The first thing in a file says what it is for; a public header's also for which threads."""
    lines = source.lines
    if _PUBLIC.match(source.path) and source.is_cpp and not _says_threads(lines):
        yield from source.finding(1, "contract", "say in the head which threads may use it")
    if source.is_cpp:
        good = bool(lines) and lines[0].startswith("//")
    elif source.is_python:
        module = ast.parse(source.text)
        good = ast.get_docstring(module) is not None or (bool(lines) and lines[0].startswith("#"))
        good = good or not source.text.strip()
    elif source.path.endswith((".cmake", "CMakeLists.txt")):
        good = bool(lines) and (lines[0].startswith("#") or source.path == "CMakeLists.txt")
    elif source.path in ("dev", ".ci/run"):
        good = len(lines) > 1 and lines[1].startswith("#")
    else:
        return
    if not good:
        yield from source.finding(1, "contract", "open the file with what it is for, and what "
                                                 "never happens in it")
