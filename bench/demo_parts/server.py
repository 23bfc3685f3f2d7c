"""One run of the service in a process of its own, and what can be seen of that process."""
from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringloop import _kernels
from ringloop.kernels import _processor

SERVE = Path(__file__).resolve().parents[2] / "examples" / "service" / "serve.py"
KERNEL_THREADS = ("iou-wrk-", "iou-sqp-")
READY_S = 60.0


class Failed(Exception):
    """Ends the demo with this sentence."""


def better_environment() -> tuple[dict[str, str], str] | None:
    """Where OpenBLAS does not know the processor: the environment in which it does better, for this
    program and its servers alike, as their answers are compared byte by byte; and a sentence."""
    core = _kernels.blas_core()
    better = _processor.better_core(core, _processor.processor_flags())
    if better is None or "OPENBLAS_CORETYPE" in os.environ:
        return None
    return os.environ | {"OPENBLAS_CORETYPE": better}, (
        f"OpenBLAS takes this processor for '{core}': all variants run with "
        f"OPENBLAS_CORETYPE={better}")


class Server:
    """The service, started on entry and ended on exit, whatever happens in between."""

    def __init__(self, loop: str, work: str, port: int) -> None:
        self._command = [sys.executable, str(SERVE), "--loop", loop, "--work", work,
                         "--port", str(port), "--until-eof"]
        self.port = 0
        self.kernel_workers_max = 0

    def __enter__(self) -> Server:
        # A session of its own: Ctrl-C reaches this program alone, which then ends the server.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            self.port = self._announced()
        except BaseException:
            self._end()
            raise
        self._watcher_stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch_kernel_workers, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._watcher_stop.set()
        self._watcher.join()
        self._end()

    def stats(self) -> dict[str, Any]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, 30)) as asking:
            asking.request("GET", "/stats")
            found: dict[str, Any] = json.loads(asking.getresponse().read())
            return found

    def threads(self) -> int:
        """Threads of the process, the kernel's io_uring workers not counted."""
        return sum(not name.startswith(KERNEL_THREADS) for name in self._thread_names())

    def epoll_instances(self) -> int:
        folder = Path(f"/proc/{self._process.pid}/fd")
        return sum(_link(entry) == "anon_inode:[eventpoll]" for entry in folder.iterdir())

    def _thread_names(self) -> Iterator[str]:
        for task in Path(f"/proc/{self._process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield (task / "comm").read_text().strip()

    def _watch_kernel_workers(self) -> None:
        while not self._watcher_stop.wait(0.1):
            with contextlib.suppress(OSError):
                now = sum(name.startswith(KERNEL_THREADS) for name in self._thread_names())
                self.kernel_workers_max = max(self.kernel_workers_max, now)

    def _announced(self) -> int:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise Failed(f"the server did not start: {' '.join(self._command)}")
        return int(json.loads(line)["port"])

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(8)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise Failed("the server did not end when it was asked to") from None


def _link(entry: Path) -> str:
    try:
        return os.readlink(entry)
    except OSError:
        return ""


def drive(client: Path, plan: Path, port: int, connections: int, warm_s: float,
          seconds: float) -> dict[str, Any]:
    """Loads the server; Failed at the first wrong answer."""
    command = [str(client), str(plan), str(port), str(connections), str(warm_s), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            out, errors = process.communicate(timeout=warm_s + seconds + 30)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise Failed(f"the load generator stopped: {errors.strip()}")
    found: dict[str, Any] = json.loads(out)
    if found["requests"] == 0:
        raise Failed("no request was answered while the load was measured")
    return found
