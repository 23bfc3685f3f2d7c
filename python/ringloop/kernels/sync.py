"""The kernels as plain functions: the same code on the calling thread, with the GIL released.

One call uses one thread and runs to its end; parallelism is the caller's, an executor's for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _kernels

if TYPE_CHECKING:
    from .._kernels import Buffer, Filter, Result

__all__ = ["frame_filter", "jpeg_decode", "jpeg_encode", "matmul"]


def matmul(a: Buffer, b: Buffer) -> Result:
    """See `ringloop.kernels.matmul`."""
    return _kernels.matmul_sync(a, b)


def frame_filter(frame: Buffer, kind: Filter) -> Result:
    """See `ringloop.kernels.frame_filter`."""
    return _kernels.frame_filter_sync(frame, kind)


def jpeg_decode(data: Buffer) -> Result:
    """See `ringloop.kernels.jpeg_decode`."""
    return _kernels.jpeg_decode_sync(data)


def jpeg_encode(frame: Buffer, quality: int = 90) -> bytes:
    """See `ringloop.kernels.jpeg_encode`."""
    return _kernels.jpeg_encode_sync(frame, quality)
