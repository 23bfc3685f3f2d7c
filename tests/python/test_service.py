"""The example service, as a user starts it: right answers, clear refusals, a clean end."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import signal
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
