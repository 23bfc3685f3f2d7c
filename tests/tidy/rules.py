"""All rules, and the one function that applies them."""
from __future__ import annotations

from typing import Callable, Iterable, Iterator

from tidy import layers, limits, words
from tidy.source import Finding, Source

Rule = Callable[[Source], Iterator[Finding]]
RULES: dict[str, Rule] = {
    "columns": limits.columns,
    "file-length": limits.file_length,
    "function-length": limits.function_length,
    "contract": limits.contract,
    "layers": layers.includes,
    "kernel-door": layers.kernel_door,
    "words": words.words,
    "banned": words.banned_calls,
}


def check(sources: Iterable[Source], rules: dict[str, Rule] = RULES) -> list[Finding]:
    return [finding for source in sources for rule in rules.values() for finding in rule(source)]
