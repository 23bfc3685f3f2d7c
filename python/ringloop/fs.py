"""Operations on paths as awaitables, under any asyncio loop; no thread is used.

await ringloop.fs.stat(path)
data = await ringloop.fs.read_bytes(path)
"""

from __future__ import annotations

import os
from typing import Any

from . import _native
from .files import Buffer, StrPath, _flags

__all__ = ["read_bytes", "stat", "write_bytes"]


def stat(path: StrPath, *, follow_symlinks: bool = True) -> Any:
    """Awaits an os.stat_result, as os.stat() gives."""
    return _native.stat(path, follow_symlinks)


def read_bytes(path: StrPath) -> Any:
    """Awaits the contents of a file: open, read and close as one operation."""
    return _native.read_bytes(path)


async def write_bytes(path: StrPath, data: Buffer, *, mode: int = 0o666) -> int:
    """Makes or replaces the contents of a file; gives their length.

    A cancel leaves a part of them, as a crash would: write beside and rename where that matters.
    """
    raw = await _native.open_file(os.fspath(path), _flags("wb"), mode)
    try:
        return await raw.write(data)
    finally:
        await raw.close()
