"""Extension modules as others build them: what does not compile, and what is refused at import."""
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import nanobind
import pybind11
import pytest
import ringloop
from harness.commands import BUILD_LIMIT_S
from harness.compiled import python_headers
from harness.extensions import load
from harness.loops import Run

pytestmark = pytest.mark.time_limit(BUILD_LIMIT_S)


BINDERS = {"pybind11": pybind11.get_include(), "nanobind": nanobind.include_dir()}


def compiler(*binders: str) -> tuple[str, ...]:
    folders = [word for binder in binders for word in ("-isystem", BINDERS[binder])]
    return (os.environ.get("CXX", "g++"), "-std=c++20", "-fPIC", "-I", ringloop.get_include(),
            *folders, "-isystem", python_headers())


REFUSED = {
    "rl::task<void> f(const std::string& text)": "parameter by reference",
    "rl::task<void> f(std::string&& text)": "parameter by reference",
    "rl::task<void> f(thing& object)": "parameter by reference",
    "rl::task<void> f(const char* text)": "parameter by pointer",
    "rl::task<void> f(PyObject* object)": "a raw PyObject*",
    "rl::task<void> f(rl::py::borrow object)": "a borrow ends with the call",
    "rl::py::outcome<int> f(int number, PyObject* object)": "a raw PyObject*",
    "rl::task<void> f(std::string_view text)": "a view (string_view, span",
    "rl::task<void> f(std::span<const char> bytes)": "a view (string_view, span",
    "rl::task<void> f(std::vector<std::string_view> texts)": "a view (string_view, span",
    "rl::task<void> f(std::optional<int*> at)": "a view (string_view, span",
    "rl::task<void> f(binder::dict all)": "an object of the binding tool's must be dropped",
    "rl::task<void> f(std::vector<binder::object> all)": "a view (string_view, span",
    "rl::task<std::string_view> f()": "returns an owner, not a view",
    "rl::task<binder::list> f()": "must be made under the GIL",
    "rl::task<int&> f()": "returns a value",
    "int f()": "functions that return ringloop::task<T>,",
}

MISUSED = {
    'rl::py::def<&fine>(m, "f", binder::call_guard<binder::gil_scoped_release>())': "a call_guard",
    'rl::py::def_static<&fine>(m, "f")': "the scope is no class",
    'rl::py::fast<&view>(m.ptr(), "f")': "returns an owner, not a view",
    'rl::py::fast<&known_view>(m.ptr(), "f")': "returns an owner, not a view",
    'rl::py::fast<&borrows>(m.ptr(), "f")': "a borrow ends with the call",
    'rl::py::def_static<&thing::own>(c, "own")': "a member that needs an object",
}


@pytest.mark.parametrize("binder", BINDERS)
def test_what_could_dangle_does_not_compile(tmp_path: Path, binder: str) -> None:
    """All in one compilation: each refusal names its line."""
    other = next(each for each in BINDERS if each != binder)
    lines = [f"#include <{binder}/{binder}.h>", "#include <ringloop/python.hpp>",
             f"#include <{other}/{other}.h>", "#include <optional>", "#include <span>",
             "#include <string_view>", "#include <vector>", "namespace rl = ringloop;",
             f"namespace binder = {binder};", "rl::task<int> fine();",
             "rl::task<std::span<int>> view();",
             "rl::py::outcome<std::span<char>> known_view();",
             "rl::task<int> borrows(int number, rl::py::borrow object);",
             "struct thing { rl::task<int> own(); };",
             f"void wrong({other}::module_& m) {{ rl::py::def<&fine>(m, \"fine\"); }}"]
    expected = {len(lines): "this module or class is not of the binding tool"}
    for number, (signature, reason) in enumerate(REFUSED.items()):
        lines += [f"namespace n{number} {{ {signature}; }}",
                  f"void d{number}(binder::module_& m) "
                  f"{{ rl::py::def<&n{number}::f>(m, \"f\"); }}"]
        expected[len(lines)] = reason
    for call, reason in MISUSED.items():
        lines.append(f"void m{len(lines)}(binder::module_& m, binder::class_<thing>& c) "
                     f"{{ {call}; }}")
        expected[len(lines)] = reason
    source = tmp_path / "refused.cpp"
    source.write_text("\n".join(lines) + "\n")
    done = subprocess.run([*compiler(*BINDERS), "-fsyntax-only", "-fmax-errors=0", str(source)],
                          capture_output=True, text=True, check=False)
    assert done.returncode != 0
    for line, reason in expected.items():
        assert f"{source}:{line}" in done.stderr, (line, lines[line - 1])
    for reason in set(expected.values()):
        assert reason in done.stderr, reason


def without_pybind11(folder: Path) -> list[str]:
    """The compiler's own folders of headers, but for pybind11 where the system has it."""
    said = subprocess.run([compiler()[0], "-xc++", "-E", "-v", os.devnull], capture_output=True,
                          text=True, check=True).stderr
    searched = said.partition("#include <...> search starts here:")[2].partition("End of")[0]
    words = ["-nostdinc"]
    for number, searching in enumerate(map(Path, searched.split())):
        if (searching / "pybind11").exists():
            copy = folder / f"headers-{number}"
            copy.mkdir()
            for each in searching.iterdir():
                if each.name != "pybind11":
                    (copy / each.name).symlink_to(each)
            searching = copy
        words += ["-isystem", str(searching)]
    return words


@pytest.mark.parametrize(("binders", "text", "said"), (
    (("nanobind",), "#define Py_LIMITED_API 0x030c0000\n#include <nanobind/nanobind.h>\n",
     "build without STABLE_ABI"),
    (("nanobind",), "#include <nanobind/nanobind.h>\n", "")))
def test_a_binder_that_cannot_is_told(tmp_path: Path, binders: tuple[str, ...], text: str,
                                      said: str) -> None:
    source = tmp_path / "told.cpp"
    source.write_text(text + "#include <ringloop/python.hpp>\n")
    done = subprocess.run([*compiler(*binders), *without_pybind11(tmp_path), "-E", str(source)],
                          capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (said == "") and said in done.stderr


@pytest.mark.parametrize(("use", "said"), (
    ("void use(int& m) { rl::py::def<&f>(m, \"f\"); }", "py::def needs a binding tool"),
    ("auto use(rl::py::object o) { return o.as<std::thread>(); }", "has no conversion"),
    ("auto use(rl::py::object o) { return o.as<std::vector<int>>(); }", "")))
def test_without_a_binder_only_what_needs_one_does_not_compile(tmp_path: Path, use: str, said: str
                                                               ) -> None:
    source = tmp_path / "told.cpp"
    source.write_text("#include <ringloop/python.hpp>\n#include <thread>\n"
                      f"namespace rl = ringloop;\nrl::task<int> f();\n{use}\n")
    done = subprocess.run([*compiler(), *without_pybind11(tmp_path), "-fsyntax-only", str(source)],
                          capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (said == "") and said in done.stderr


def build_asking(tmp_path: Path, version: str) -> None:
    """A module that asks for the C++ interface and says what it found."""
    source = tmp_path / "asks.cpp"
    source.write_text(f"""
#define RINGLOOP_PYTHON_TABLE_VERSION {version}
#include <ringloop/py/runtime.hpp>
static PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "asks", nullptr, -1, nullptr, nullptr,
                                 nullptr, nullptr, nullptr}};
PyMODINIT_FUNC PyInit_asks() {{
    if (ringloop::py::import_runtime() < 0) return nullptr;
    return PyModule_Create(&definition);
}}
""")
    module = tmp_path / "asks.so"
    subprocess.run([*compiler(), "-shared", str(source), "-o", str(module)], check=True)


IMPORT = "import asks"


def import_asks(folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *sys.path])
    return subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})


def test_a_module_of_this_version_is_taken(tmp_path: Path) -> None:
    build_asking(tmp_path, "1u")
    done = import_asks(tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", ("0u", "2u"))
def test_a_module_of_another_version_is_refused_in_words(tmp_path: Path, version: str) -> None:
    build_asking(tmp_path, version)
    done = import_asks(tmp_path)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: this module was built for version " + version[0])
    assert "the installed ringloop has version 1" in said and "rebuild" in said


@pytest.mark.parametrize("binder", ("bridge_calls", "bridge_calls_nanobind"))
def test_two_extensions_and_the_loop_share_one_runtime(on_host: Run, binder: str) -> None:
    calls, other = load(binder), load("bridge_other")

    async def main() -> None:
        assert await other.pass_on(calls.wait(1, "text")) == "passed on: text"
        assert await other.pass_on(calls.wait_for(other.pass_on(asyncio.sleep(0, "x")))) \
            == "passed on: passed on: x"

    on_host(main())
    maps = Path("/proc/self/maps").read_text()
    assert len({line.split()[-1] for line in maps.splitlines() if "libringloop" in line}) == 1
