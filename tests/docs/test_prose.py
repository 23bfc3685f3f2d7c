"""What the prose shows works: Python blocks and docs/'s commands run, C++ blocks compile and run,
the other commands exist."""
from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import nanobind
import pybind11
import pytest

from docs.blocks import PROSE, ROOT, Block, blocks

pytestmark = pytest.mark.time_limit(240)


def of(language: str) -> list[pytest.ParameterSet]:
    return [pytest.param(block, id=block.id) for block in blocks(language)]


@pytest.mark.parametrize("block", of("json"))
def test_the_json_block_can_be_read(block: Block) -> None:
    assert json.loads(block.text)


def test_what_docs_does_not_run_says_why() -> None:
    for block in blocks():
        if block.in_docs and block.is_fragment:
            assert re.fullmatch("fragment: .+", block.directive), block.id


def runnable(block: Block) -> tuple[str, int]:
    """Its text, and the port that it serves (0: none): a free one in place of the one it names."""
    serves = re.fullmatch(r"serves (\d+)", block.directive)
    if serves is None:
        return block.text, 0
    assert serves[1] in block.text
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return block.text.replace(serves[1], str(port)), port


def run_program(command: list[str], block: Block, folder: Path, port: int) -> None:
    if port == 0:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              timeout=60)
        assert done.returncode == 0, f"{block.id}: {done.stdout}{done.stderr}"
        return
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            with connected(port, server) as peer:
                peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert peer.recv(100)
        finally:
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=30)[1]
    assert server.returncode in (0, 130, -signal.SIGINT), said


def connected(port: int, server: subprocess.Popen[str]) -> socket.socket:
    while server.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=30)
        except ConnectionRefusedError:
            pass
    raise AssertionError(f"the server ended with {server.returncode}: {server.communicate()[1]}")


def build_extension(name: str, page: str, folder: Path) -> None:
    """The module `name` of that page, compiled against the package as it is built."""
    text = next(block.text for block in blocks("cpp")
                if block.file == page and block.directive == f"extension {name}")
    source = folder / f"{name}.cpp"
    source.write_text(text)
    package = Path(os.environ["RINGLOOP_BUILD"]) / "pkg" / "ringloop"
    python = sysconfig.get_path("include")
    if "<nanobind/" in text:
        binder, library = nanobind.include_dir(), [str(next(Path(
            os.environ["RINGLOOP_BUILD"]).rglob("libnanobind_of_tests.a")))]
    else:
        binder, library = pybind11.get_include(), []
    sanitizers = ["-fsanitize=address,undefined"] if os.environ["RINGLOOP_PRESET"] == "asan" else []
    done = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-shared", "-fPIC",
                           "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", *sanitizers,
                           f"-I{package}/include", "-isystem", binder, "-isystem", python,
                           str(source), *library, f"-L{package}/lib",
                           f"-l:{next(package.glob('lib/libringloop.so.*')).name}",
                           f"-Wl,-rpath,{package}/lib", "-o", str(folder / f"{name}.so")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("block", [
    pytest.param(block, id=block.id) for block in blocks("cpp") if block.directive == "host"])
@pytest.mark.skipif(os.environ.get("RINGLOOP_PRESET") == "asan", reason="Python is not built so")
def test_the_program_that_hosts_python_runs(block: Block, tmp_path: Path) -> None:
    package = Path(os.environ["RINGLOOP_BUILD"]) / "pkg" / "ringloop"
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("LDLIBRARY")
    if not library.exists() or library.suffix == ".a":
        pytest.skip("this Python has no shared libpython")
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(block.text)
    done = subprocess.run(
        [os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror",
         f"-I{package}/include", "-isystem", sysconfig.get_path("include"),
         f'-DRINGLOOP_EMBED_PYTHON="{sys.executable}"',
         f'-DRINGLOOP_EMBED_PACKAGES="{package.parent}"', str(source), str(library),
         str(next(package.glob("lib/libringloop.so.*"))), f"-Wl,-rpath,{library.parent}",
         f"-Wl,-rpath,{package}/lib", "-o", str(program)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    run_program([str(program)], block, tmp_path, 0)


@pytest.mark.parametrize("block", of("python"))
def test_the_python_block_runs(block: Block, tmp_path: Path) -> None:
    uses = re.fullmatch(r"uses (\w+)", block.directive)
    if uses is not None:
        build_extension(uses[1], block.file, tmp_path)
    program = tmp_path / "program.py"
    text, port = runnable(block)
    program.write_text(text)
    compile(text, block.id, "exec")
    if not block.is_fragment:
        run_program([sys.executable, "-W", "error", str(program)], block, tmp_path, port)


def test_every_extension_of_the_prose_is_used() -> None:
    made = {(block.file, block.directive.split()[1]) for block in blocks("cpp")
            if block.directive.startswith("extension ")}
    used = {(block.file, block.directive.split()[1]) for block in blocks("python")
            if block.directive.startswith("uses ")}
    assert made == used


@pytest.mark.parametrize("block", [
    pytest.param(block, id=block.id) for block in blocks("cpp")
    if not block.directive.startswith("extension ") and block.directive != "host"])
def test_the_cpp_block_compiles_and_runs(block: Block, tmp_path: Path) -> None:
    build = Path(os.environ["RINGLOOP_BUILD"])
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    text, port = runnable(block)
    if block.is_fragment:
        text += "\nint main() {}\n"
    source.write_text(text)
    compiler = os.environ.get("CXX", "g++")
    library = next(build.rglob("libringloop.a"))
    others = [f"-l{name}" for name in ("uv", "tbb") if f"ringloop/interop/{name}.hpp" in text]
    done = subprocess.run([compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror",
                           f"-I{ROOT}/runtime/include", f"-I{ROOT}/bridge/include", str(source),
                           str(library), "-luring", *others, "-pthread", "-o", str(program)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    if not block.is_fragment:
        run_program([str(program)], block, tmp_path, port)


def commands(block: Block) -> list[str]:
    joined = block.text.replace("\\\n", " ")
    found = (line.split("#")[0].strip() for line in joined.splitlines())
    return [line for line in found if line]


KNOWN = (".", "apt-get", "cd", "cmake", "ctest", "docker", "git", "gunicorn", "pip", "python",
         "python3", "strace", "sudo", "ulimit", "uvicorn")


@pytest.mark.parametrize("block", of("sh"))
def test_every_command_works_or_exists(block: Block, tmp_path: Path) -> None:
    if block.in_docs and not block.is_fragment:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=tmp_path,
                              env={**os.environ, "PATH": path}, capture_output=True, text=True,
                              check=False, timeout=60)
        assert done.returncode == 0, f"{block.id}: {done.stdout}{done.stderr}"
    listed = subprocess.run([str(ROOT / "dev")], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  (\w+) ", listed, re.MULTILINE)
    for command in commands(block):
        words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
        if words[0] != "./dev":
            assert words[0] in KNOWN, f"{block.id}: {command}"
        elif len(words) > 1:
            assert words[1] in verbs, f"{block.id}: {command}"
            if words[1] == "bench":
                assert (ROOT / "bench" / "python" / f"{words[2]}.py").exists(), command


@pytest.mark.parametrize("verb", ["demo", "soak", "format", "bench loops"])
def test_the_help_of_a_verb_prepares_nothing(verb: str) -> None:
    """A question about the demo's options installed, built and then answered."""
    done = subprocess.run([str(ROOT / "dev"), *verb.split(), "--help"], capture_output=True,
                          text=True, check=True)
    assert done.stdout.startswith((f"./dev {verb} [", f"./dev {verb}: "))
    assert "[dev]" not in done.stdout


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PROSE)
def test_every_link_and_path_in_the_prose_leads_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if target.startswith("http"):
            continue
        page = (ROOT / name).parent / target if target else ROOT / name
        assert page.exists(), f"{name} links to {target}"
        assert not anchor or anchor in anchors(page), f"{name} links to {target}#{anchor}"
    folders = "runtime|bridge|kernels|python|tests|bench|tools|examples|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*(?:/|\.\w+))`", text):
        assert (ROOT / path).exists(), f"{name} names {path}"


def test_a_part_that_there_is_not_is_refused_before_anything_is_prepared() -> None:
    done = subprocess.run([str(ROOT / "dev"), "test", "nonsense"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and "there is no part nonsense: tidy, unit" in done.stderr
    assert "[dev]" not in done.stdout
