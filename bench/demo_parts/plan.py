"""What is asked and what is right: writes plans for bench/load, with answers that were computed
here and checked against numpy, so that a wrong answer of any variant ends the run.
"""
from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from ringloop.kernels import sync

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "service"))

import app  # noqa: E402

SIDE = 128          # of the matrices of POST /matmul
FILES = 200         # different files of the standard library
FILE_BYTES_MAX = 128 * 1024
# Out of 1000 requests
FILE_WEIGHT, MIX_WEIGHT, MATMUL_WEIGHT, FRAME_WEIGHT = 400, 400, 150, 50


@dataclasses.dataclass(frozen=True)
class Plans:
    mixed: Path
    files: Path


class _Writer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def line(self, weight: int, name: str, request: bytes, body: bytes) -> str:
        self._count += 1
        request_file, body_file = f"{self._count}.request", f"{self._count}.body"
        (self.folder / request_file).write_bytes(request)
        (self.folder / body_file).write_bytes(body)
        return f"{weight} {name} {request_file} {body_file}\n"


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def product(a: Any, b: Any) -> Any:
    """By our kernel, because answers are compared byte by byte; numpy has to agree."""
    ours = sync.matmul(a, b)
    np.testing.assert_allclose(ours, a @ b, rtol=1e-4)
    return ours


def photograph() -> bytes:
    return Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg").read_bytes()


def write(folder: Path) -> Plans:
    """Plans in `folder`: the mix of all endpoints, and files alone."""
    writer = _Writer(folder)
    random = np.random.default_rng(1)
    a, b = (random.random((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    jpeg = photograph()
    blurred = sync.jpeg_encode(sync.frame_filter(sync.jpeg_decode(jpeg), "gaussian5"))
    mix = app.mix_answer(product(app.MIX_MATRIX, app.MIX_MATRIX), app.MIX_BYTES, "ok")
    lines = [
        writer.line(MIX_WEIGHT, "mix", get("/mix"),
                    json.dumps(mix, separators=(",", ":")).encode()),
        writer.line(MATMUL_WEIGHT, "matmul", post("/matmul", app.npy(a) + app.npy(b)),
                    app.npy(product(a, b))),
        writer.line(FRAME_WEIGHT, "frame", post("/frame", jpeg), blurred),
    ]
    small = [(name, path) for name, path in sorted(app.library_files().items())
             if path.stat().st_size <= FILE_BYTES_MAX and " " not in name]
    chosen = small[::max(1, len(small) // FILES)][:FILES]
    files = [writer.line(FILE_WEIGHT // len(chosen), "file", get(f"/file/{name}"),
                         path.read_bytes()) for name, path in chosen]
    plans = Plans(folder / "mixed.plan", folder / "files.plan")
    plans.mixed.write_text("".join(lines + files))
    plans.files.write_text("".join(files))
    return plans
