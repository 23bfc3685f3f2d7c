"""fs.copy(): a file copied by a worker, piece by piece, under a name of its own until it is whole.

The kernel copies where it can (copy_file_range); the loop's thread only hears how far it is. A
cancel stops the worker within a megabyte, and then the unfinished file is removed: whoever awaits
the copy gets CancelledError after that. Removing and renaming are not interrupted by a cancel.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat as kinds
from typing import Any, Callable

from . import _native

Path = str | bytes
Progress = Callable[[int, int], object]

_PIECE = 8 << 20
_LINKS_MAX = 40


async def _status(path: Path) -> os.stat_result | None:
    try:
        return await _native.stat(path)
    except OSError:
        return None  # why it is not there will be told by who tries to make it


async def behind_links(path: Path) -> Path:
    """The path that writing to `path` would make or change."""
    for _ in range(_LINKS_MAX):
        try:
            target = await _native.read_link(path)
        except OSError:
            return path  # no link, or nothing yet
        path = os.path.join(os.path.dirname(path), target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _beside(path: Path) -> Path:
    name = f".ringloop-{secrets.token_hex(8)}.part"
    folder = os.path.dirname(path)
    if isinstance(folder, bytes):
        return os.path.join(folder, os.fsencode(name))
    return os.path.join(folder, name)


def _inside(folder: Path, path: Path) -> Path:
    name = os.path.basename(path)
    if isinstance(folder, bytes):
        return os.path.join(folder, os.fsencode(name))
    return os.path.join(folder, os.fsdecode(name))


def _refuse(path: Path, code: int) -> OSError:
    return OSError(code, os.strerror(code), path)


class Copy:
    """One copy: awaited once, by run()."""

    def __init__(self, source: Path, target: Path, progress: Progress | None) -> None:
        self._source, self._target = source, target
        self._progress = progress
        self._open: list[Any] = []
        self._begun = False  # the part may be there

    async def run(
        self, status: _native.Awaitable[os.stat_result], there: _native.Awaitable[os.stat_result]
    ) -> Path:
        """Gives the path of the copy. The two awaitables are the first looks at both paths."""
        found = await status
        try:
            existing: os.stat_result | None = await there
        except OSError:
            existing = None
        if existing is not None and kinds.S_ISDIR(existing.st_mode):
            self._target = _inside(self._target, self._source)
            existing = await _status(self._target)
        if kinds.S_ISLNK(found.st_mode):
            await _native.symlink(await _native.read_link(self._source), self._target)
            return self._target
        self._check(found, existing)
        whole = await behind_links(self._target)
        await self._make(found, whole, _beside(whole))
        return self._target

    def _check(self, found: os.stat_result, existing: os.stat_result | None) -> None:
        for path, status in ((self._source, found), (self._target, existing)):
            if status is None or kinds.S_ISREG(status.st_mode):
                continue
            if kinds.S_ISDIR(status.st_mode):
                raise _refuse(path, errno.EISDIR)
            raise shutil.SpecialFileError(f"{path!r} is not a regular file")
        if existing is not None and os.path.samestat(found, existing):
            raise shutil.SameFileError(f"{self._source!r} and {self._target!r} are the same file")

    async def _make(self, found: os.stat_result, whole: Path, part: Path) -> None:
        try:
            await self._fill(found.st_size, part)
            await _native.chmod(part, kinds.S_IMODE(found.st_mode))
            await _native.rename(part, whole, True)
        except GeneratorExit:
            # Nothing can be awaited any more; the files close when they are dropped.
            if self._begun:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part)
            raise
        except BaseException as error:
            try:
                await self._close()
            finally:
                await self._discard(part)
            if isinstance(error, OSError) and error.filename == part:
                error.filename = self._target  # the name that the caller knows
            raise

    async def _discard(self, part: Path) -> None:
        if not self._begun:
            return
        try:
            await _native.unlink(part, False, True)
        except FileNotFoundError:
            pass  # it has its name already

    async def _close(self) -> None:
        if self._open:
            try:
                await self._open.pop().close()
            finally:
                await self._close()

    async def _fill(self, total: int, part: Path) -> None:
        source = await _native.open_file(self._source, os.O_RDONLY, 0)
        self._open.append(source)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._begun = True
        try:
            target = await _native.open_file(part, new, 0o600, True)
        except OSError:
            self._begun = False
            raise
        self._open.append(target)
        done = 0
        while True:
            try:
                count = await _native.copy_part(source, target, done, _PIECE)
            except OSError as error:
                error.filename, error.filename2 = self._source, self._target
                raise
            done += count
            if self._progress is not None and (count or not done):
                self._progress(done, max(done, total))
            if count < _PIECE:
                break
        await self._close()
