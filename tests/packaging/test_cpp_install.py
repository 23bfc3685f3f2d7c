"""The runtime as C++ developers get it: installed, as a subfolder, by pkg-config, as a package.

Each way is tried from a project outside of the tree, with the README's echo server as its program.
What is installed is the build that ./dev test has made anyway (RINGLOOP_BUILD), into a folder that
is then moved.
"""
from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from docs.blocks import blocks
from harness.commands import BUILD_LIMIT_S, ROOT, run

pytestmark = pytest.mark.time_limit(BUILD_LIMIT_S)
long = pytest.mark.skipif(os.environ.get("RINGLOOP_TEST_ALL") != "1",
                          reason="a long test: ./dev test --all")

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(server LANGUAGES CXX)
add_executable(server server.cpp)
"""
VERSION = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1]


def of_the_readme(language: str, mark: str) -> str:
    return next(block.text for block in blocks(language)
                if block.file == "README.md" and mark in block.text)


class Consumer:
    """A project of a user's: the README's echo server and a few lines of CMake."""

    def __init__(self, folder: Path, lines: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.folder = folder
        folder.mkdir(exist_ok=True)
        text = of_the_readme("cpp", "tcp_listener")
        assert "8080" in text
        (folder / "server.cpp").write_text(text.replace("8080", str(self.port)))
        (folder / "CMakeLists.txt").write_text(PROJECT + lines)

    def build(self, *options: str) -> Path:
        run("cmake", "-G", "Ninja", "-S", self.folder, "-B", self.folder / "build", *options)
        run("ninja", "-C", self.folder / "build")
        return self.folder / "build" / "server"

    def serves(self, program: Path, **environment: str) -> None:
        """It echoes, and SIGINT ends it cleanly."""
        with subprocess.Popen([str(program)], env={**os.environ, **environment}) as server:
            try:
                with connected(self.port, server) as peer:
                    peer.sendall(b"hello")
                    assert peer.recv(5, socket.MSG_WAITALL) == b"hello"
            finally:
                server.send_signal(signal.SIGINT)
        assert server.returncode == 0


def connected(port: int, server: subprocess.Popen[bytes]) -> socket.socket:
    while server.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=30)
        except ConnectionRefusedError:
            pass
    raise AssertionError(f"the server ended with {server.returncode}")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runtime was installed; nothing in it may know of the first folder."""
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", os.environ["RINGLOOP_BUILD"], "--component", "development",
        "--prefix", folder / "before")
    moved = (folder / "before").rename(folder / "after")
    for path in moved.rglob("*"):
        if path.suffix in (".cmake", ".pc"):
            text = path.read_text()
            assert str(folder) not in text and str(ROOT) not in text, path
    return moved


def test_find_package_gives_a_program_that_serves(prefix: Path, tmp_path: Path) -> None:
    lines = of_the_readme("cmake", "find_package")
    user = Consumer(tmp_path / "user", lines)
    user.serves(user.build(f"-DCMAKE_PREFIX_PATH={prefix}"))


def configured(folder: Path, prefix: Path, lines: str) -> str:
    """What CMake says to a project that compiles nothing."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES CXX)\n{lines}\n")
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", str(folder), "-B", str(folder / "build"),
                           f"-DCMAKE_PREFIX_PATH={prefix}"],
                          capture_output=True, text=True, check=False)
    return " ".join((done.stdout + done.stderr).split())


def test_versions_and_components_are_looked_at(prefix: Path, tmp_path: Path) -> None:
    said = configured(tmp_path, prefix, """
        find_package(ringloop 0.1 REQUIRED COMPONENTS runtime)
        message(STATUS "version ${ringloop_VERSION}, ${ringloop_runtime_FOUND}")
        find_package(ringloop 0.2 QUIET)
        message(STATUS "newer: ${ringloop_FOUND}")
        find_package(ringloop QUIET COMPONENTS nonsense)
        message(STATUS "nonsense: ${ringloop_FOUND}")""")
    assert f"version {VERSION}, TRUE" in said
    assert "newer: 0" in said and "nonsense: 0" in said


def test_a_missing_liburing_is_said_to_the_user(prefix: Path, tmp_path: Path) -> None:
    said = configured(tmp_path, prefix, """
        set(CMAKE_FIND_ROOT_PATH /nowhere)
        set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
        set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE NEVER)
        find_package(ringloop)
        message(STATUS "found: ${ringloop_FOUND}")""")
    assert "apt-get install liburing-dev" in said and "found: 0" in said


def test_the_simulated_kernel_is_a_component_of_a_build_with_tests(prefix: Path,
                                                                   tmp_path: Path) -> None:
    said = configured(tmp_path, prefix, """
        find_package(ringloop REQUIRED COMPONENTS testing)
        get_target_property(where ringloop::testing TYPE)
        message(STATUS "testing: ${where}")""")
    assert "testing: STATIC_LIBRARY" in said


@pytest.mark.parametrize("options", [[], ["--static"]], ids=["plain", "static"])
def test_pkg_config_gives_a_program_that_serves(prefix: Path, tmp_path: Path,
                                                options: list[str]) -> None:
    folder = next(prefix.rglob("ringloop.pc")).parent
    path = os.pathsep.join([str(folder), os.environ.get("PKG_CONFIG_PATH", "")])
    said = run("pkg-config", *options, "--cflags", "--libs", "ringloop", PKG_CONFIG_PATH=path)
    assert {"-lringloop", "-luring", "-pthread"} <= set(said.split())
    assert run("pkg-config", "--modversion", "ringloop", PKG_CONFIG_PATH=path).strip() == VERSION
    if options:
        return      # the same words: one program is enough
    user = Consumer(tmp_path)
    run("g++", "-std=c++20", tmp_path / "server.cpp", "-o", tmp_path / "server", *said.split())
    user.serves(tmp_path / "server")


TLS_PROGRAM = """
#include <ringloop/ringloop.hpp>
int main() {
    const auto trust = ringloop::net::tls_context::client();
    return ringloop::net::tls_stream() ? 1 : 0;
}
"""


def test_tls_is_a_component_and_a_pkg_config_module(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "server.cpp").write_text(TLS_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT + """
        find_package(ringloop 0.1 REQUIRED COMPONENTS tls)
        target_link_libraries(server PRIVATE ringloop::tls)""")
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build",
        f"-DCMAKE_PREFIX_PATH={prefix}")
    run("ninja", "-C", tmp_path / "build")
    run(tmp_path / "build" / "server")
    path = str(next(prefix.rglob("ringloop-tls.pc")).parent)
    said = run("pkg-config", "--cflags", "--libs", "ringloop-tls", PKG_CONFIG_PATH=path)
    run("g++", "-std=c++20", tmp_path / "server.cpp", "-o", tmp_path / "server", *said.split())
    run(tmp_path / "server")


SUBFOLDER = """
get_directory_property(flags COMPILE_OPTIONS)
file(WRITE ${CMAKE_BINARY_DIR}/seen "${CMAKE_CXX_FLAGS}|${flags}|${CMAKE_CXX_STANDARD}|"
     "${CMAKE_CXX_VISIBILITY_PRESET}|${CMAKE_POSITION_INDEPENDENT_CODE}|"
     "${CMAKE_CXX_COMPILER_LAUNCHER}|${BUILD_TESTING}")
"""


@long   # compiles the whole library
def test_as_a_subfolder_it_builds_itself_alone_and_changes_nothing(tmp_path: Path) -> None:
    """The two lines of CMake in the README, around its program."""
    user = Consumer(tmp_path, of_the_readme("cmake", "add_subdirectory") + SUBFOLDER)
    (tmp_path / "ringloop").symlink_to(ROOT)
    program = user.build("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    user.serves(program)
    assert (tmp_path / "build" / "seen").read_text() == "||||||"
    compiled = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    for entry in compiled:
        assert "-Werror" not in entry["command"]
        inside = entry["file"].removeprefix(str(ROOT)).removeprefix(str(tmp_path / "ringloop"))
        assert inside.startswith("/runtime/src/") or entry["file"].endswith("server.cpp")
        assert "/fake/" not in entry["file"]
    installed = run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "installed")
    assert "ringloop" not in installed.replace(str(tmp_path), "")


@long
def test_the_shared_library_serves_and_exports_nothing_of_liburing(tmp_path: Path) -> None:
    build, prefix = tmp_path / "build", tmp_path / "prefix"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DBUILD_SHARED_LIBS=ON",
        "-DCMAKE_BUILD_TYPE=Release")
    run("ninja", "-C", build)
    run("cmake", "--install", build, "--prefix", prefix)
    library = next(prefix.rglob("libringloop.so.0.1"))
    exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only",
                                                 library).splitlines()]
    assert not [name for name in exported if name.startswith("io_uring_")]
    assert any("ringloop3run" in name for name in exported)
    user = Consumer(tmp_path / "user", of_the_readme("cmake", "find_package"))
    user.serves(user.build(f"-DCMAKE_PREFIX_PATH={prefix}"))
    said = run("pkg-config", "--libs", "ringloop",
               PKG_CONFIG_PATH=str(next(prefix.rglob("ringloop.pc")).parent))
    assert "uring" not in said.replace("ringloop", "")
    run("cpack", cwd=build)
    packages = {path.name.partition("_")[0] for path in build.glob("*.deb")}
    assert packages == {"libringloop-dev", "libringloop0.1"}


@long
def test_the_debian_package_serves_from_where_it_is_unpacked(tmp_path: Path) -> None:
    build, root = tmp_path / "build", tmp_path / "root"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_INSTALL_PREFIX=/usr")
    run("ninja", "-C", build)
    run("cpack", cwd=build)
    package, = build.glob("*.deb")
    facts = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", package).splitlines()
                 if ": " in line)
    architecture = run("dpkg", "--print-architecture").strip()
    assert package.name == f"libringloop-dev_{VERSION}_{architecture}.deb"
    assert facts["Package"] == "libringloop-dev" and facts["Section"] == "libdevel"
    assert "liburing-dev (>= 2.3)" in facts["Depends"]
    for dependency in re.findall(r"[\w.+-]+(?= \(|,|$)", facts["Depends"]):
        run("dpkg", "--status", dependency)         # the names are Debian's
    run("dpkg-deb", "--extract", package, root)
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert "usr/share/doc/libringloop-dev/copyright" in names
    assert "usr/include/ringloop/ringloop.hpp" in names
    assert all(name.startswith("usr/") for name in names)
    assert not [name for name in names if "/testing/" in name or name.endswith(".so")]
    user = Consumer(tmp_path / "user", of_the_readme("cmake", "find_package"))
    user.serves(user.build(f"-DCMAKE_PREFIX_PATH={root}/usr"))
