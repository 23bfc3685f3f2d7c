"""Compute that runs off the loop, without the GIL, and is awaited: under asyncio, uvloop, ringloop.

Inputs are taken without a copy from anything with the buffer protocol (numpy, array.array,
memoryview) or DLPack (torch, jax; needs numpy) and stay pinned until the worker has left them: do
not change them before the await ends. Results are numpy arrays where numpy is installed, else
memoryviews of the same shape. A caller's mistake raises at the call, before anything is awaited.

Cancelling the await stops the workers within about a millisecond. Workers run at nice 19, so a busy
kernel does not hold up the event loop. `ringloop.kernels.sync` has the same functions without the
awaiting, for threads and executors.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

try:
    import ringloop._kernels as _kernels   # `from .. import` hides that there is none
except ModuleNotFoundError as missing:
    raise ImportError(
        "ringloop was built without its kernels: install libtbb-dev, libopenblas-dev and "
        "libjpeg62-turbo-dev (Debian's names), then reinstall ringloop"
    ) from missing
except ImportError as missing:
    raise ImportError(
        "ringloop.kernels needs oneTBB, OpenBLAS and libjpeg-turbo at run time: install libtbb12, "
        f"libopenblas0 and libjpeg62-turbo (Debian's names): {missing}"
    ) from missing
from . import sync
from ._processor import blas_hint

if TYPE_CHECKING:
    from .. import Awaitable
    from .._kernels import Buffer, Filter, Result

__all__ = [
    "compute_seconds",
    "concurrency",
    "frame_filter",
    "jpeg_decode",
    "jpeg_encode",
    "matmul",
    "sync",
]


def matmul(a: Buffer, b: Buffer) -> Awaitable[Result]:
    """The product of two matrices, both float32 or both float64.

    Rows or columns must lie densely in memory, as in slices and transposes; other strides are
    refused rather than copied.
    """
    return _kernels.matmul(a, b)


def frame_filter(frame: Buffer, kind: Filter) -> Awaitable[Result]:
    """A filtered copy of an image: uint8, (height, width) or (height, width, 1, 3 or 4).

    `kind` is "gaussian5", "box3", "sobel" or "sharpen". The border is extended by its nearest
    pixels; a fourth channel is alpha and is copied.
    """
    return _kernels.frame_filter(frame, kind)


def jpeg_decode(data: Buffer) -> Awaitable[Result]:
    """The pixels of a JPEG file: uint8, (height, width, 3), red first; grey images too.

    Damaged and truncated data raises ValueError.
    """
    return _kernels.jpeg_decode(data)


def jpeg_encode(frame: Buffer, quality: int = 90) -> Awaitable[bytes]:
    """A JPEG file of a frame as in `frame_filter`; alpha is left out."""
    return _kernels.jpeg_encode(frame, quality)


def compute_seconds() -> float:
    """Thread CPU time that this process has spent inside the kernels so far, the twins included."""
    return _kernels.compute_seconds()


def concurrency() -> int:
    """How many jobs run at once: as many as the CPUs this process may use."""
    return _kernels.concurrency()


_hint = blas_hint(_kernels.blas_core())
if _hint is not None:
    logging.getLogger(__name__).warning(_hint)
