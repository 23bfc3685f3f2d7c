"""Starts the servers that the programs need, and ends them: one context manager each.

A web server gets a socket that listens already, so nobody waits for it; a database says itself when
it is ready. Databases live in a private folder on Unix sockets, as an unprivileged user where this
process is root. Nothing outlives its context manager; a server's output is shown if it ends badly.
"""
from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator

APPS = Path(__file__).resolve().parent / "apps"
END_S = 30


@contextlib.contextmanager
def listening() -> Iterator[tuple[socket.socket, int]]:
    """A TCP socket that listens on loopback, and its port; inheritable."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as sock:
        sock.set_inheritable(True)
        yield sock, sock.getsockname()[1]


@contextlib.contextmanager
def process(*command: str, sock: socket.socket | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program of apps/ or a module; ended by SIGTERM, after which it must end well."""
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(
            [sys.executable, *command], cwd=APPS, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, pass_fds=() if sock is None else (sock.fileno(),),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        try:
            yield started
        except BaseException:
            started.kill()
            started.wait()
            output.seek(0)
            print(output.read().decode("utf-8", "replace"))
            raise
        started.send_signal(signal.SIGTERM)
        try:
            code = started.wait(END_S)
        finally:
            started.kill()
            started.wait()
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
            print(text)
        assert code in (0, -signal.SIGTERM), f"exit code {code}: {text[-2000:]}"
        assert "Traceback" not in text, text


def _user() -> str | None:
    """Whom a database runs as: servers refuse root."""
    return None if os.geteuid() else "nobody"


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ringloop-", dir="/tmp"))   # short: holds sockets
    user = _user()
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _postgresql_programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    if there is None:
        raise FileNotFoundError("PostgreSQL's initdb: apt-get install postgresql")
    return Path(there).resolve().parent


@contextlib.contextmanager
def postgresql() -> Iterator[Path]:
    """A new, empty cluster; the folder is the host that a client names."""
    programs = _postgresql_programs()
    with _private_folder() as folder:
        def run(*command: str) -> None:
            done = subprocess.run(command, user=_user(), cwd=folder, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, check=False)
            assert done.returncode == 0, done.stdout

        data, log = str(folder / "data"), str(folder / "log")
        run(str(programs / "initdb"), "-D", data, "-A", "trust", "-U", "tester", "--no-sync")
        options = f"-c listen_addresses= -c fsync=off -k {folder}"
        control = str(programs / "pg_ctl")
        run(control, "-D", data, "-l", log, "-w", "-o", options, "start")
        try:
            yield folder
        finally:
            run(control, "-D", data, "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """The path of the server's Unix socket."""
    program = shutil.which("redis-server")
    if program is None:
        raise FileNotFoundError("redis-server: apt-get install redis-server")
    with _private_folder() as folder:
        path = str(folder / "redis.sock")
        with subprocess.Popen([program, "--port", "0", "--unixsocket", path, "--save", "",
                               "--dir", str(folder)], user=_user(), cwd=folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as server:
            try:
                assert server.stdout is not None
                shown = []
                for line in server.stdout:
                    shown.append(line)
                    if "ready to accept connections" in line.lower():
                        break
                else:
                    raise AssertionError("".join(shown))
                yield path
            finally:
                server.terminate()
                server.wait(END_S)
