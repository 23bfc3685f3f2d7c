"""The example service, as a user starts it: right answers, clear refusals, a clean end."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

for needed in ("uvicorn", "starlette", "aiohttp", "httptools", "matplotlib", "uvloop"):
    pytest.importorskip(needed)
np = pytest.importorskip("numpy")

from ringloop.kernels import sync  # noqa: E402

SERVE = Path(__file__).resolve().parents[2] / "examples" / "service" / "serve.py"
DEMO = [sys.executable, str(SERVE.parents[2] / "bench" / "demo.py")]
VARIANTS = [("ringloop", "native"), ("uvloop", "native"), ("asyncio", "executor")]


class Client:
    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, 30)) as asking:
            asking.request(method, path, body)
            answer = asking.getresponse()
            return answer.status, answer.read()


@pytest.fixture(scope="module", params=VARIANTS, ids="-".join)
def service(request: pytest.FixtureRequest) -> Iterator[Client]:
    loop, work = request.param
    command = [sys.executable, str(SERVE), "--loop", loop, "--work", work, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Client(process, json.loads(process.stdout.readline())["port"])
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def npy_header(text: str) -> bytes:
    """A .npy of version 1 whose header says `text`."""
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def npy(*arrays: object) -> bytes:
    stream = io.BytesIO()
    for array in arrays:
        np.save(stream, array)
    return stream.getvalue()


def test_matmul_answers_the_product(service: Client) -> None:
    a, b = np.random.default_rng(3).random((2, 40, 40), dtype=np.float32)
    status, body = service.ask("POST", "/matmul", npy(a, b))
    assert status == 200
    np.testing.assert_allclose(np.load(io.BytesIO(body)), a @ b, rtol=1e-4)


def test_frame_answers_the_photograph_blurred(service: Client) -> None:
    import matplotlib

    photograph = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg").read_bytes()
    status, body = service.ask("POST", "/frame", photograph)
    blurred = sync.frame_filter(sync.jpeg_decode(photograph), "gaussian5")
    assert (status, body) == (200, sync.jpeg_encode(blurred))


def test_files_of_the_library_are_served_whole(service: Client) -> None:
    root = Path(sysconfig.get_path("stdlib"))
    for name in ("asyncio/events.py", "abc.py", "json/__init__.py"):
        assert service.ask("GET", f"/file/{name}") == (200, (root / name).read_bytes())


@pytest.mark.parametrize(
    "path",
    ["../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "asyncio/../../x", "",
     "asyncio", "abc.py%00", "nothing.here"],
)  # fmt: skip
def test_nothing_else_can_be_read(service: Client, path: str) -> None:
    status, body = service.ask("GET", f"/file/{path}")
    assert status == 404
    assert b"root:" not in body


def test_mix_joins_all_three(service: Client) -> None:
    status, body = service.ask("GET", "/mix")
    matrix = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
    trace = float(np.trace(matrix @ matrix))
    assert (status, json.loads(body)) == (200, {"trace": trace, "bytes": 65536, "ping": "ok"})


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/matmul", b"no matrix", b"two .npy"),
        ("/matmul", npy(np.ones((2, 3), "f")), b"two .npy"),
        ("/matmul", npy(np.ones((2, 3), "f"), np.ones((2, 3), "f")), b"rows of b"),
        ("/matmul", npy(np.ones((2, 2), "i4"), np.ones((2, 2), "i4")), b"astype"),
        ("/matmul", npy(*[np.ones((2, 2), "f")] * 3), b"more after"),
        ("/matmul", npy_header("{'descr': "), b"two .npy"),
        ("/matmul", npy_header("{[]: 1}"), b"two .npy"),
        ("/matmul", npy_header("-" * 9000 + "1"), b"two .npy"),
        ("/matmul", npy_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}"), b"npy"),
        ("/frame", b"no photograph", b"Not a JPEG"),
        ("/frame", b"", b"empty"),
    ],
)
def test_mistakes_are_answered_with_400_and_a_sentence(
    service: Client, path: str, body: bytes, words: bytes
) -> None:
    status, answer = service.ask("POST", path, body)
    assert status == 400
    assert words in answer


@pytest.mark.parametrize("side", [5000, 300_000])
def test_a_small_body_cannot_ask_for_a_huge_product(service: Client, side: int) -> None:
    column, row = np.ones((side, 1), "f"), np.ones((1, side), "f")
    status, answer = service.ask("POST", "/matmul", npy(column, row))
    assert (status, b"product" in answer) == (413, True)


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_clients_that_leave_in_their_body_are_no_error(variant: tuple[str, str]) -> None:
    command = [sys.executable, str(SERVE), "--loop", variant[0], "--work", variant[1], "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = ("127.0.0.1", json.loads(process.stdout.readline())["port"])
        for path in ("/matmul", "/frame"):
            for _ in range(20):
                with socket.create_connection(address) as leaving:
                    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nxx"
                    leaving.sendall(head.encode())
        assert Client(process, address[1]).ask("GET", "/ping") == (200, b"ok")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, b"Traceback" in errors) == (0, False), errors.decode()


@pytest.mark.parametrize(
    "options", [["--json", "/nonexistent/record"], ["--seconds", "inf"], ["--port", "70000"]]
)
def test_the_demo_refuses_options_before_it_measures(options: list[str]) -> None:
    ended = subprocess.run([*DEMO, *options], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, f"error: {options[0]}" in ended.stderr) == (2, True), ended.stderr


def test_the_demo_says_at_once_that_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = subprocess.run([*DEMO, "--port", port], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert f"error: --port {port}: Address already in use" in ended.stderr


def test_ctrl_c_ends_the_demo_while_its_imports_run(tmp_path: Path) -> None:
    """Some of them swallow KeyboardInterrupt: the demo went on to its end."""
    (tmp_path / "matplotlib.py").write_text(
        "import os, signal, sys\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit('swallowed')\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    ended = subprocess.run(DEMO, env=os.environ | {"PYTHONPATH": path}, capture_output=True,
                           text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
