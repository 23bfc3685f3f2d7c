"""Every rule fires on what it is there for, and leaves its neighbour alone."""
from __future__ import annotations

import pytest

from tidy import layers, limits, words
from tidy.rules import RULES, Rule
from tidy.source import Source

HEAD = "// What it is for.\n"
LONG_BODY = "    x();\n" * 70


def fires(rule: Rule, path: str, text: str) -> list[str]:
    return [finding.rule for finding in rule(Source(path, text))]


@pytest.mark.parametrize(("name", "path", "bad", "good"), [
    ("columns", "runtime/src/a.cpp", "x" * 101, "x" * 100),
    ("columns", "python/ringloop/a.py", "x = 1 ", "x = 1"),
    ("file-length", "runtime/src/a.cpp", "x\n" * 801, "x\n" * 800),
    ("contract", "runtime/src/a.cpp", "int x;\n", HEAD + "int x;\n"),
    ("contract", "runtime/include/ringloop/a.hpp", "// What.\n#pragma once\nint x;\n",
     "// What. Thread: any.\n#pragma once\nint x;\n"),
    ("contract", "python/ringloop/a.py", "x = 1\n", '"""What."""\nx = 1\n'),
    ("contract", "cmake/a.cmake", "set(x 1)\n", "# What.\nset(x 1)\n"),
    ("layers", "runtime/src/a.cpp", "#include <Python.h>\n", "#include <vector>\n"),
    ("layers", "runtime/src/a.cpp", '#include "ringloop/bridge/core/job.hpp"\n',
     '#include "ringloop/driver.hpp"\n'),
    ("layers", "runtime/include/ringloop/a.hpp", "#include <asio.hpp>\n", "#include <span>\n"),
    ("layers", "runtime/src/a.cpp", '#include "ringloop/interop/uv.hpp"\n', "#include <span>\n"),
    ("layers", "runtime/include/ringloop/net/a.hpp", "#include <openssl/ssl.h>\n",
     "#include <span>\n"),
    ("layers", "bridge/include/ringloop/bridge/core/a.hpp",
     '#include "ringloop/bridge/python/host.hpp"\n', '#include "ringloop/inbox.hpp"\n'),
    ("layers", "bridge/src/python/a.cpp", "#include <tbb/task_arena.h>\n", "#include <Python.h>\n"),
    ("layers", "kernels/src/a.cpp", "#include <Python.h>\n", "#include <tbb/task_arena.h>\n"),
    ("layers", "kernels/src/a.cpp", '#include "ringloop/scheduler.hpp"\n',
     '#include "ringloop/bridge/core/job.hpp"\n'),
    ("layers", "python/native/a.cpp", "#include <cblas.h>\n", "#include <Python.h>\n"),
    ("kernel-door", "runtime/src/core/a.cpp", "#include <sys/epoll.h>\n", "#include <cstdint>\n"),
    ("kernel-door", "runtime/src/core/a.cpp", "auto n = ::read(fd, p, 1);\n", "io.read(p, 1);\n"),
    ("kernel-door", "python/native/a.cpp", "eventfd(0, 0);\n", "// eventfd(0, 0);\n"),
    ("kernel-door", "bridge/src/python/a.cpp", "auto t = std::chrono::steady_clock::now();\n",
     "auto t = native.now_ns();\n"),
    ("words", "README.md", "TO" "DO later", "to do"),
    ("words", "tools/dev/a.py", "x = '/wo" "rk/main'", "x = 'network/main'"),
    ("banned", "runtime/src/a.cpp", 'printf("x");', 'snprintf(b, 3, "x");'),
    ("banned", "runtime/include/ringloop/a.hpp", "#pragma once\nusing namespace std;\n",
     "#pragma once\n"),
    ("banned", "runtime/include/ringloop/a.hpp", "int x;\n", "#pragma once\nint x;\n"),
    ("banned", "python/ringloop/a.py", "print(1)\n", "log.info(1)\n"),
    ("banned", "python/ringloop/a.py", "try:\n    f()\nexcept:\n    pass\n",
     "try:\n    f()\nexcept OSError:\n    pass\n"),
    ("banned", "tests/python/test_a.py", "time.sleep(1)\n", "await asyncio.sleep(1)\n"),
])
def test_the_rule_fires_and_spares_its_neighbour(name: str, path: str, bad: str, good: str) -> None:
    assert fires(RULES[name], path, bad) == [name]
    assert fires(RULES[name], path, good) == []


@pytest.mark.parametrize("text", [
    HEAD + "namespace a {\nvoid f() {\n" + LONG_BODY + "}\n}\n",
    HEAD + "struct s {\n    int g(int x) const noexcept {\n" + LONG_BODY + "    }\n};\n",
    HEAD + "s::s(int x) : a_{x}, b_(2) {\n" + LONG_BODY + "}\n",
    HEAD + "template <class T>\nauto f(T x) -> std::vector<T> {\n" + LONG_BODY + "}\n",
    HEAD + "bool operator==(a x, a y) {\n" + LONG_BODY + "}\n",
    HEAD + "TEST_CASE(\"a sentence\") {\n" + LONG_BODY + "}\n",
])
def test_a_long_function_is_found_in_cpp(text: str) -> None:
    assert fires(limits.function_length, "runtime/src/a.cpp", text) == ["function-length"]


@pytest.mark.parametrize("text", [
    HEAD + "namespace a {\n" + "void f() { x(); }\n" * 80 + "}\n",
    HEAD + "struct s {\n" + "    int g(int x) const { return x; }\n" * 80 + "};\n",
    HEAD + "const int table[] = {\n" + "    f(1),\n" * 80 + "};\n",
    HEAD + "enum class e : int {\n" + "    a,\n" * 80 + "};\n",
    HEAD + "void f() {\n" + "    x();\n" * 68 + "}\n",
])
def test_long_things_that_are_not_functions_are_spared_in_cpp(text: str) -> None:
    assert fires(limits.function_length, "runtime/src/a.cpp", text) == []


def test_a_long_function_is_found_in_python() -> None:
    text = '"""What."""\nasync def f():\n' + "    x()\n" * 70
    assert fires(limits.function_length, "python/ringloop/a.py", text) == ["function-length"]


def test_the_driver_may_call_the_kernel() -> None:
    assert fires(layers.kernel_door, "runtime/src/driver/epoll/a.cpp", "::read(fd, p, 1);\n") == []


def test_an_allowance_needs_a_reason() -> None:
    bad = "printf(x);  // tidy-allow: banned\n"
    good = "// tidy-allow: banned because the process ends here\nprintf(x);\n"
    assert fires(words.banned_calls, "runtime/src/a.cpp", bad) == ["banned"]
    assert fires(words.banned_calls, "runtime/src/a.cpp", good) == []


def test_a_stray_file_is_found() -> None:
    paths = ["runtime/src/core/a.cpp", "notes.txt", "python/ringloop/a.so"]
    assert [finding.path for finding in words.stray_files(paths)] == paths[1:]
