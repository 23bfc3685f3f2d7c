"""fs.scandir(): the entries of a directory, as an async iterator of DirEntry.

A worker of the loop's driver reads the whole directory, once, and looks where each symbolic link
leads; no descriptor is open between two entries, so leaving the iteration early leaks nothing. The
memory is that of all its names.
"""

from __future__ import annotations

import os
import stat as kinds
from typing import Any, AnyStr, Generic

from . import _native

_DIRECTORY, _REGULAR, _LINK = (mode >> 12 for mode in (kinds.S_IFDIR, kinds.S_IFREG, kinds.S_IFLNK))


class DirEntry(Generic[AnyStr]):
    """One entry of a directory, as os.DirEntry, but that stat() is awaited.

    What it is was asked when the directory was read: is_dir(), is_file() and is_symlink() answer
    from that, without a system call. An entry that had vanished by then is none of them.
    """

    __slots__ = ("_inode", "_kind", "_target", "name", "path")

    name: AnyStr
    path: AnyStr

    def __init__(self, directory: AnyStr, seen: tuple[AnyStr, int, int, int]) -> None:
        self.name, self._inode, self._kind, self._target = seen
        self.path = os.path.join(directory, self.name)

    def inode(self) -> int:
        """Its inode number, of a symbolic link its own."""
        return self._inode

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a symbolic link to one."""
        return (self._target if follow_symlinks else self._kind) == _DIRECTORY

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, or a symbolic link to one."""
        return (self._target if follow_symlinks else self._kind) == _REGULAR

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self._kind == _LINK

    def is_junction(self) -> bool:
        """False: there are none on Linux."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> _native.Awaitable[os.stat_result]:
        """Awaits an os.stat_result: asks again each time. OSError if it has vanished."""
        return _native.stat(self.path, follow_symlinks)

    def __fspath__(self) -> AnyStr:
        path: AnyStr = self.path
        return path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Scan(Generic[AnyStr]):
    """What scandir() gives: `async for`, or `async with` around it. Read when first asked."""

    _path: AnyStr

    def __init__(self, path: AnyStr) -> None:
        self._path = path
        self._listing: _native.Awaitable[list[Any]] | None = _native.list_directory(path, True)
        self._seen: list[Any] = []

    def __aiter__(self) -> Scan[AnyStr]:
        return self

    async def __anext__(self) -> DirEntry[AnyStr]:
        if self._listing is not None:
            listing, self._listing = self._listing, None
            self._seen = await listing
            self._seen.reverse()
        if not self._seen:
            raise StopAsyncIteration
        return DirEntry(self._path, self._seen.pop())

    async def aclose(self) -> None:
        """Ends the iteration; what was read is dropped."""
        self._listing, self._seen = None, []

    async def __aenter__(self) -> Scan[AnyStr]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
