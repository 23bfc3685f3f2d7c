"""The package as users get it: wheel, source distribution, and what a build says when it cannot."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness.commands import BUILD_LIMIT_S, ROOT, clean_environment, run

pytestmark = pytest.mark.time_limit(BUILD_LIMIT_S)

USE = """
import asyncio, ringloop
async def main():
    async with ringloop.open(ringloop.__file__, 'rb') as file:
        return (await file.read(3)).decode()
assert ringloop.run(main()) == open(ringloop.__file__).read(3)
print(ringloop.__file__)
"""


def fresh_environment(folder: Path) -> Path:
    run(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}", "-m", "venv", folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, ROOT)
    found: Path = next(folder.glob("ringloop-*.whl"))
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = fresh_environment(tmp_path_factory.mktemp("clean"))
    run(python, "-m", "pip", "install", "--no-index", wheel)
    return python


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    script = ("import sys; from scikit_build_core.build import build_sdist; "
              "build_sdist(sys.argv[1])")
    run(sys.executable, "-c", script, folder)
    found: Path = next(folder.glob("ringloop-*.tar.gz"))
    return found


def test_the_wheel_works_in_a_clean_environment_from_any_folder(installed: Path,
                                                                tmp_path: Path) -> None:
    location = run(installed, "-c", USE, cwd=tmp_path)
    assert str(ROOT) not in location


def test_the_command_line_tells_what_the_loop_runs_on(installed: Path, tmp_path: Path) -> None:
    said = run(installed, "-m", "ringloop", "info", cwd=tmp_path)
    assert "backend" in said
    program = tmp_path / "program.py"
    program.write_text("import asyncio, sys\n"
                       "async def main():\n"
                       "    print(type(asyncio.get_running_loop()).__module__, sys.argv[1:])\n"
                       "asyncio.run(main())\n")
    said = run(installed, "-m", "ringloop", "program.py", "one", "two", cwd=tmp_path)
    assert said.split(maxsplit=1)[0].startswith("ringloop")
    assert "['one', 'two']" in said


def test_the_wheel_brings_types_stubs_kernels_and_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("ringloop/py.typed", "ringloop/_native.pyi", "ringloop/__init__.py"):
        assert name in names
    assert any(name.startswith("ringloop/_native.c") and name.endswith(".so") for name in names)
    assert any(name.startswith("ringloop/_kernels.c") and name.endswith(".so") for name in names)
    assert any(name.endswith("LICENSE") for name in names)
    outside = [name for name in names if not name.startswith(("ringloop/", "ringloop-"))]
    assert outside == []


def test_the_extensions_are_hardened_and_search_their_own_folder_alone(
        wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    modules = [*tmp_path.rglob("*.so"), *tmp_path.rglob("libringloop.so.*")]
    assert len(modules) == 3
    for module in modules:
        dynamic = run("readelf", "-dW", module)
        assert "BIND_NOW" in dynamic or "NOW" in dynamic
        paths = [line.split()[-1] for line in dynamic.splitlines()
                 if "RPATH" in line or "RUNPATH" in line]
        assert paths == (["[$ORIGIN/lib]"] if module.name.startswith("_native") else [])
        assert "TEXTREL" not in dynamic
        assert "liburing" not in dynamic            # linked statically where it can be
        assert "GNU_RELRO" in run("readelf", "-lW", module)


def test_exactly_the_listed_names_are_exported(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)

    def exported(module: Path) -> list[str]:
        listed = run("nm", "-DC", "--defined-only", module).splitlines()
        return [line.split(" ", 2)[2] for line in listed]

    for module in tmp_path.rglob("_*.so"):
        assert exported(module) == [f"PyInit_{module.name.split('.')[0]}"]
    library = next(tmp_path.rglob("libringloop.so.*"))
    names = [name.split("@")[0] for name in exported(library)]
    assert any(name.startswith("ringloop::scheduler::run(") for name in names)
    own = re.compile(r"((typeinfo|vtable|typeinfo name|VTT|guard variable) for )?ringloop::|"
                     r"RINGLOOP_0[.]1$")
    assert [name for name in names if not own.match(name)] == []
    assert [name for name in names if "ringloop::uring::" in name.split("(")[0]
            or "ringloop::epoll::" in name.split("(")[0]] == []


def test_the_source_distribution_holds_what_a_build_needs_and_no_more(
        source_distribution: Path) -> None:
    with tarfile.open(source_distribution) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for name in ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO",
                 "runtime/CMakeLists.txt", "python/ringloop/py.typed",
                 "cmake/RingloopOptions.cmake"):
        assert name in names
    for folder in ("tests/", "bench/", "build/", ".venv", "tools/", "examples/"):
        assert not [name for name in names if name.startswith(folder)]


@pytest.mark.skipif(os.environ.get("RINGLOOP_TEST_ALL") != "1",
                    reason="compiles the package once more: ./dev test --all")
def test_without_tbb_and_openblas_the_package_installs_without_kernels(
        source_distribution: Path, tmp_path: Path) -> None:
    python = fresh_environment(tmp_path / "clean")
    run(python, "-m", "pip", "install", source_distribution, cwd=tmp_path,
        CMAKE_ARGS="-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON "
                   "-DCMAKE_CXX_FLAGS_RELEASE=-O0")     # builds in half the time
    run(python, "-c", USE, cwd=tmp_path)
    said = run(python, "-c", "import ringloop\n"
                             "try:\n    ringloop.kernels.matmul\n"
                             "except ImportError as error:\n    print(error)", cwd=tmp_path)
    assert said.startswith("ringloop was built without its kernels: install libtbb-dev, ")
    assert len(said.strip().splitlines()) == 1


def configure(tmp_path: Path, *options: str, **changes: str) -> str:
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(tmp_path), *options],
                          capture_output=True, text=True, check=False,
                          env=clean_environment(**changes))
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def test_a_missing_liburing_is_said_in_one_sentence(tmp_path: Path) -> None:
    said = configure(tmp_path, "-DCMAKE_FIND_ROOT_PATH=/nowhere",
                     "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY")
    assert "ringloop needs liburing 2.3 or newer" in said
    assert "apt-get install liburing-dev" in said


def test_missing_headers_of_python_are_said_in_one_sentence(tmp_path: Path) -> None:
    """CMake's own words were a page about Development.Module."""
    said = configure(tmp_path, "-DRINGLOOP_PYTHON=ON", f"-DPython3_EXECUTABLE={sys.executable}",
                     "-DPython3_INCLUDE_DIR=/nowhere")
    assert "ringloop needs Python with its headers" in said
    assert "apt-get install python3-dev" in said


def test_without_pkg_config_openblas_is_not_said_to_be_missing(tmp_path: Path) -> None:
    """libopenblas-dev was named, which was there; without pkg-config nobody had looked."""
    disabled = "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON"
    said = configure(tmp_path / "on", "-DRINGLOOP_KERNELS=ON", disabled)
    assert "apt-get install pkg-config" in said
    said = run("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "auto", disabled,
               "-DRINGLOOP_KERNELS=AUTO")
    assert "built without ringloop.kernels, missing: pkg-config" in said
    assert "OpenBLAS (" not in said


def test_a_missing_compiler_is_said_in_one_sentence(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cmake", "ninja", "uname"):
        for folder in os.environ["PATH"].split(os.pathsep):
            if (Path(folder) / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
                break
    said = configure(tmp_path / "build", PATH=str(tools))
    assert "ringloop needs a C++20 compiler" in said
    assert "apt-get install g++" in said


USE_THE_EXTENSION = """
import asyncio, primes, sys
for name in sys.argv[1:]:
    module = __import__(name)

    async def main():
        counted = asyncio.gather(primes.count(1000), primes.count(10_000))
        assert await counted == [168, 1229]
        assert [each async for each in primes.each(20)] == [2, 3, 5, 7, 11, 13, 17, 19]
        try:
            await primes.count(-1)
        except ValueError as error:
            assert str(error) == "count(): the limit is not negative"
        try:
            async with asyncio.timeout(0.01):
                await primes.count(1 << 40)
        except TimeoutError:
            print("stopped under", name)

    with asyncio.Runner(loop_factory=module.new_event_loop) as runner:
        runner.run(main())
"""


def test_the_example_extension_builds_against_the_wheel_alone(installed: Path,
                                                              tmp_path: Path) -> None:
    # The build's own tools come from this environment: no network is asked.
    tools = next(path for path in map(Path, sys.path) if (path / "scikit_build_core").is_dir())
    copy = tmp_path / "elsewhere" / "primes"
    shutil.copytree(ROOT / "examples" / "extension", copy)
    run(installed, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--no-deps", copy,
        cwd=tmp_path, PYTHONPATH=str(tools))
    said = run(installed, "-c", USE_THE_EXTENSION, "asyncio", "ringloop", cwd=tmp_path)
    assert said.split("\n")[:2] == ["stopped under asyncio", "stopped under ringloop"]
    # Its library is found beside it, whether ringloop was imported before or not.
    module = run(installed, "-c", "import primes; print(primes.__file__)", cwd=tmp_path).strip()
    assert "ringloop/lib/libringloop.so" in run("ldd", module)


HOST_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(elsewhere LANGUAGES CXX)
find_package(ringloop 0.1 REQUIRED COMPONENTS python python_embed)
add_executable(app app.cpp)
target_link_libraries(app PRIVATE ringloop::python_embed)
"""
HOST_PROGRAM = """
#include <ringloop/python.hpp>
#include <cstdio>
namespace rl = ringloop;
rl::task<void> app(rl::py::interpreter& python) {
    auto asyncio = python.import("asyncio");
    auto text = co_await rl::py::await<std::string>(asyncio.call("sleep", 0.001, "slept"));
    auto file = python.import("ringloop").attr("__file__").as<std::string>();
    auto command = python.import("sys").attr("executable").as<std::string>();
    std::printf("%s\\n%s\\n%s\\n", text.c_str(), file.c_str(), command.c_str());
}
int main() { return rl::py::run(app); }
"""


def test_a_program_that_hosts_python_builds_against_the_wheel_alone(installed: Path,
                                                                    tmp_path: Path) -> None:
    """It finds the packages of the environment that the wheel is in, without being told."""
    found = run(installed, "-c", "import ringloop; print(ringloop.get_cmake_dir())", cwd=tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(HOST_PROJECT)
    (tmp_path / "app.cpp").write_text(HOST_PROGRAM)
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build",
        f"-Dringloop_ROOT={found.strip()}")
    run("cmake", "--build", tmp_path / "build")
    said = run(tmp_path / "build" / "app", cwd=Path("/")).splitlines()
    assert said[0] == "slept"
    assert Path(said[1]).parent == Path(found.strip()).parent
    assert Path(said[2]).parent == installed.parent


def test_a_python_without_the_package_s_interface_cannot_be_hosted(installed: Path,
                                                                   tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("cmake", "include", "lib"):
        (tmp_path / "package" / name).symlink_to(
            Path(run(installed, "-c", "import ringloop; print(ringloop.__path__[0])",
                     cwd=tmp_path).strip()) / name)
    (tmp_path / "package" / "_native.cpython-399-other.so").touch()
    (tmp_path / "CMakeLists.txt").write_text(HOST_PROJECT)
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", str(tmp_path), "-B", str(tmp_path / "build"),
         f"-Dringloop_ROOT={tmp_path}/package/cmake", f"-DPython3_EXECUTABLE={installed}"],
        capture_output=True, text=True, check=False, env=clean_environment())
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "no program can host this ringloop's Python:" in said
    assert "ringloop was built for cpython-399-other" in said
