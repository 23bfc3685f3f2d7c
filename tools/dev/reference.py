"""./dev docs: a reference of the C++ runtime, made of what its headers say of themselves.

A page for each public header: its contract (the comment that it opens with) as prose, then what it
declares, each with the comment above it. Private members, bodies and what is only there to be
awaited are left out. Understands the house's own style, no more of C++ than that. Markdown;
nothing of it is checked in.
"""
from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path
from typing import Iterator

INCLUDE = Path(__file__).resolve().parents[2] / "runtime" / "include" / "ringloop"

_LABELS = ("Thread", "Lifetime", "Cancel", "Cancellation", "Errors", "Order", "Stack", "Memory")
_LABEL = re.compile(rf"(?:^|(?<=[.)] ))({'|'.join(_LABELS)}): ")
_ITEM = re.compile(r" +(-|\d+\.) ")
_CODE = "    "
_HIDDEN_TYPE = re.compile(r"_await$|^awaiter$|^promise_type$")


@dataclasses.dataclass(frozen=True)
class Declaration:
    name: str
    comment: tuple[str, ...]    # lines, without //
    code: str


def public_headers() -> list[Path]:
    return sorted(path for path in INCLUDE.rglob("*.hpp") if "detail" not in path.parts)


# ---- comments

def contract(text: str) -> list[str]:
    """The lines of the comment that a header opens with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return lines


def _parts(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """("code" | "item" | "prose", its lines), in order."""
    kind, kept, before = "", [], ""
    for line in lines:
        if kind == "code" and (line.startswith(_CODE) or not line):
            new = "code"
        elif line.startswith(_CODE) and (not before or before.endswith(":")):
            new = "code"
        elif not line:
            new = ""
        elif _ITEM.match(line):
            new = "item"
        elif line.startswith(" ") and kind == "item":
            new = "item"
        else:
            new = "prose"
        begins = _ITEM.match(line) if new == "item" else _LABEL.match(line)
        if kept and (new != kind or (begins and new != "code")):
            yield kind, kept
            kept = []
        if new:
            kept.append(line)
        kind, before = new, line
    if kept:
        yield kind, kept


def code_blocks(lines: list[str]) -> list[str]:
    """The C++ of a comment, one text a block; a remark behind a statement becomes a comment."""
    return [text for kind, kept in _parts(lines) if kind == "code"
            for text in [_code(kept)] if _is_cpp(text)]


def _code(lines: list[str]) -> str:
    bare = textwrap.dedent("\n".join(lines))
    return re.sub(r"(?m)([;}…])( {2,})(?!//)(\S.*)$", r"\1\2// \3", bare).rstrip()


def _is_cpp(text: str) -> bool:
    return re.search(r"[;{}]", text) is not None


def markdown(lines: list[str]) -> str:
    """A comment as prose: paragraphs, lists, code."""
    found, last = "", ""
    for kind, kept in _parts(lines):
        if kind == "code":
            text = _code(kept)
            text = f"```{'cpp' if _is_cpp(text) else 'text'}\n{text}\n```"
        else:
            text = " ".join(line.strip() for line in kept)
            text = _LABEL.sub(r"\n\n**\1:** ", text).lstrip("\n")
        found += ("\n" if kind == last == "item" else "\n\n") + text
        last = kind
    return found.strip().replace(" \n", "\n")


# ---- declarations

def _blanked(text: str) -> str:
    """The same text with comments, literals and preprocessor lines as blanks."""
    noise = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^#[^\n]*', re.MULTILINE)
    return noise.sub(lambda match: " " * len(match[0]), text)


def _closing(code: str, opening: int) -> int:
    """Where the brace or parenthesis at `opening` is closed."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(code[at], 0)
        if depth == 0:
            return at
    raise ValueError("a brace is never closed")


def _chunks(text: str, code: str, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(begin of the comment above, begin, end) of each declaration, labels of access included."""
    at = begin
    while (first := re.compile(r"\S").search(code, at, end)) is not None:
        start = first.start()
        label = re.compile(r"(public|private|protected)\s*:").match(code, start)
        if label is not None:
            yield start, start, label.end()
            at = label.end()
            continue
        depth, stop = 0, start
        while depth or code[stop] not in ";{":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(code[stop], 0)
            stop += 1
        if code[stop] == "{":
            opening, stop = stop, _closing(code, stop)
            if re.match(r"(template\b.*?>\s*)?(class|struct|union|enum)\b", code[start:stop],
                        re.DOTALL) or re.match(r"\s*;", code[stop + 1:]):
                while code[stop] != ";":        # what the type has made, and its initializer
                    stop = _closing(code, stop) if code[stop] == "{" else stop
                    stop += 1
            if _initializes(code[start:opening]):
                another = re.compile(r"\s*,\s*[\w:<>]+[({]")
                while (more := another.match(code, stop + 1)) is not None:
                    stop = _closing(code, more.end() - 1)
                stop = _closing(code, code.index("{", stop + 1))
        yield _comment_above(text, start, begin), start, stop + 1
        at = stop + 1


def _initializes(head: str) -> bool:
    """A brace behind `head` is no body but that of a constructor's member."""
    return re.search(r"\)\s*(noexcept\s*)?:(?!:)", head) is not None and not head[-1].isspace()


def _comment_above(text: str, start: int, limit: int) -> int:
    line = text.rfind("\n", 0, start) + 1
    while line > limit:
        before = text.rfind("\n", 0, line - 1) + 1
        if before < limit or not text[before:line].strip().startswith("//"):
            break
        line = before
    return line


_TYPE = re.compile(r"(?:template\s*<.*?>\s*)?(?:requires[^{]*?\)\s*)?(?:class|struct|union)\s+"
                   r"(?:\[\[\w+\]\]\s*)?(\w+)[^;(]*$", re.DOTALL)
_NAMESPACE = re.compile(r"(?:inline\s+)?namespace\s+([\w:]+)\s*$")


def _name(head: str) -> str:
    simple = re.match(r"(?:enum (?:class |struct )?|using )(\w+)", head)
    if simple is not None:
        return simple[1]
    for match in re.finditer(r"([\w~]+)\s*\(", head):
        if match[1] not in ("requires", "noexcept", "sizeof", "decltype", "alignas"):
            return match[1]
    words = re.findall(r"\w+", re.split(r"[={]", head)[0])
    return words[-1] if words else ""


def _shown(text: str, code: str, start: int, end: int) -> str:
    """A declaration without its bodies and private members."""
    opening = code.find("{", start, end)
    head = code[start:opening] if opening >= 0 else code[start:end]
    if opening < 0:
        return text[start:end]
    named = _TYPE.match(head)
    if named is not None:
        indent = text[text.rfind("\n", 0, start) + 1:start]
        members = _members(text, code, opening + 1, _closing(code, opening), head)
        return text[start:opening + 1] + members + (indent if members else "") + "};"
    if "(" not in head or re.match(r"enum\b", head) or re.search(r"[^=!<>]=\s*$", head):
        return text[start:end]          # enumerators, an initializer
    if re.match(r"(static |inline |constexpr )*[\w:<>]+ \w+$", head.strip()):
        return text[start:end]
    cut = re.search(r"\)[\s\w]*?(\s*:)(?!:)", head)
    stop = start + (cut.start(1) if cut else len(head.rstrip()))
    return text[start:stop].rstrip() + ";"


def _members(text: str, code: str, begin: int, end: int, head: str) -> str:
    public = re.search(r"\bclass\b", head) is None
    found = []
    for above, start, stop in _chunks(text, code, begin, end):
        label = re.match(r"(public|private|protected)\s*:$", code[start:stop])
        if label is not None:
            public = label[1] == "public"
            continue
        inner = _TYPE.match(code[start:stop].split("{")[0].rstrip(";"))
        hidden = _HIDDEN_TYPE.search(inner[1]) if inner else re.search(r"\bawait_(ready|suspend)\(",
                                                                       code[start:stop])
        if not public or hidden or code[start:stop].startswith("friend "):
            continue
        line_end = text.find("\n", stop)
        remark = text[stop:line_end] if "//" in text[stop:line_end] else ""
        blank = "\n" if found and text[max(above - 2, 0):above].endswith("\n\n") else ""
        comment = text[text.rfind("\n", 0, above) + 1:start]
        found.append(blank + comment + _shown(text, code, start, stop) + remark)
    lines = [line if line.strip() else "" for each in found for line in each.split("\n")]
    return "\n" + "\n".join(lines) + "\n" if found else ""


def declarations(text: str) -> list[Declaration]:
    """What a header declares at the level of its namespaces, `detail` left out."""
    code = _blanked(text)
    return list(_declarations(text, code, 0, len(code)))


def _declarations(text: str, code: str, begin: int, end: int) -> Iterator[Declaration]:
    for above, start, stop in _chunks(text, code, begin, end):
        opening = code.find("{", start, stop)
        head = (code[start:opening] if opening >= 0 else code[start:stop]).strip(" ;\n")
        space = _NAMESPACE.match(head)
        if space is not None:
            if space[1].split("::")[-1] != "detail":
                yield from _declarations(text, code, opening + 1, _closing(code, opening))
            continue
        named = _TYPE.match(head)
        if head.startswith(("extern template", "using ringloop")) or \
                named is not None and opening < 0:
            continue
        comment = [line.strip()[2:].removeprefix(" ") for line in text[above:start].splitlines()
                   if line.strip().startswith("//") and "tidy-allow" not in line]
        remark = text[stop:text.find("\n", stop)]
        yield Declaration(named[1] if named else _name(head), tuple(comment),
                          _shown(text, code, start, stop) + (remark if "//" in remark else ""))


# ---- pages

def page(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(INCLUDE.parent)
    found = [f"# {path.stem}", f"`#include <{name}>`", markdown(contract(text))]
    last = ""
    for each in declarations(text):
        if each.name != last:
            found.append(f"## {each.name}")
        if each.comment:
            found.append(markdown(list(each.comment)))
        found.append(f"```cpp\n{each.code}\n```")
        last = each.name
    return "\n\n".join(found) + "\n"


def summary(path: Path) -> str:
    """The first sentence of a contract, without the name before it."""
    text = " ".join(line.strip() for line in contract(path.read_text(encoding="utf-8")))
    sentence = re.split(r"(?<=[.:]) (?=[A-Z])|\s{2,}|(?<=\w)\.(?= )", text)[0].rstrip(".:")
    return sentence.split(": ", 1)[-1]


def write(folder: Path) -> list[Path]:
    """Every page and an index into `folder`; returns what was written."""
    made = []
    index = ["# The C++ runtime, header by header",
             "`#include <ringloop/ringloop.hpp>` brings all but `testing/` and what needs other "
             "libraries."]
    for group in sorted({path.parent for path in public_headers()}):
        index.append(f"## {group.relative_to(INCLUDE.parent)}/")
        lines = []
        for path in public_headers():
            if path.parent != group:
                continue
            target = folder / path.relative_to(INCLUDE).with_suffix(".md")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page(path), encoding="utf-8")
            made.append(target)
            lines.append(f"- [{path.stem}]({target.relative_to(folder)}): {summary(path)}")
        index.append("\n".join(lines))
    (folder / "README.md").write_text("\n\n".join(index) + "\n", encoding="utf-8")
    return [*made, folder / "README.md"]
