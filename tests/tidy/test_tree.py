"""The tree keeps the house rules; what was built keeps the direction of dependency."""
from __future__ import annotations

import ast
import re

import pytest

from tidy import layers, source, words
from tidy.rules import RULES, check


@pytest.fixture(scope="module")
def tree() -> list[source.Source]:
    return source.tree()


@pytest.mark.parametrize("rule", RULES)
def test_the_tree_keeps_the_rule(rule: str, tree: list[source.Source]) -> None:
    findings = check(tree, {rule: RULES[rule]})
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_every_file_has_its_place() -> None:
    findings = list(words.stray_files(source.tracked()))
    assert not findings, "\n" + "\n".join(map(str, findings))


def test_every_allowed_system_call_outside_the_driver_is_still_needed(
        tree: list[source.Source]) -> None:
    for path in layers.ALLOWED_CALLS:
        below = [each for each in tree if each.path.startswith(path)]
        assert any(list(layers.kernel_door(each, allowed=())) for each in below), path


def test_dev_takes_every_python_that_the_package_says_it_is_for() -> None:
    """./dev knew 3.14 and 3.15 not, while the package was held against both."""
    names = re.compile(r"Programming Language :: Python :: (3[.]\d+)")
    said = set(names.findall((source.ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    text = (source.ROOT / "tools" / "dev" / "machine.py").read_text(encoding="utf-8")
    supported = re.search(r"(?m)^SUPPORTED = (\(.*\))$", text)
    assert supported and set(ast.literal_eval(supported[1])) == said
    lists = (source.ROOT / "tests" / "conformance" / "cpython").glob("*.toml")
    assert {path.stem for path in lists} == said


def test_who_names_a_sized_integer_includes_its_header(tree: list[source.Source]) -> None:
    """A load client had <cstdint> by way of GCC 12's own headers; GCC 16's no longer bring it."""
    include = re.compile(r'(?m)^\s*#\s*include\s*[<"]([^>"]+)[>"]')
    included = {each.path: set(include.findall(each.text)) for each in tree if each.is_cpp}
    named = re.compile(r"\bstd::u?int(?:\d+|ptr)_t\b")
    provided = {path for path, names in included.items() if names & {"cstdint", "stdint.h"}}

    def has_it(path: str, on_the_way: frozenset[str] = frozenset()) -> bool:
        beside = path.rpartition("/")[0]
        below = {other for name in included[path] for other in (
            [f"{beside}/{name}"] if f"{beside}/{name}" in included
            else [each for each in included if each.endswith("/" + name)])}
        return path in provided or any(has_it(each, on_the_way | {path})
                                       for each in below - on_the_way)

    users = [each.path for each in tree if each.is_cpp and named.search(each.code)]
    assert users and [path for path in users if not has_it(path)] == []


LIBRARIES = ("libringloop.a", "libringloop_testing.a", "libringloop_kernels.a")


def _built(pattern: str) -> list[str]:
    folder = layers.build_folder()
    if folder is None:
        pytest.skip("no build to look at: ./dev test tidy makes one")
    return [str(path) for path in folder.rglob(pattern)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_native_libraries_need_no_python(library: str) -> None:
    found = _built(library)
    assert found
    for path in found:
        assert layers.python_symbols(source.Path(path)) == []


def test_the_runtime_was_built_and_needs_no_compute_library() -> None:
    found = _built("libringloop.a")
    assert found
    for path in found:
        assert layers.compute_symbols(source.Path(path)) == []


def test_extension_modules_export_nothing_but_their_entry() -> None:
    found = _built("_native*.so") + _built("_kernels*.so")
    assert found
    for path in found:
        name = source.Path(path).name.split(".")[0]
        exported = [symbol for symbol in layers.exported_symbols(source.Path(path))
                    if not symbol.startswith(("_Z", "__odr_asan", "_init", "_fini"))]
        assert exported == [f"PyInit_{name}"]
