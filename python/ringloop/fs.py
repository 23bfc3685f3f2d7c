"""Operations on paths as awaitables, under any asyncio loop, named as in os and pathlib.

await ringloop.fs.rename(old, new)
async for entry in ringloop.fs.scandir(folder): …

Where the work is done: stat and what only looks at it (exists, isfile …), rename, unlink, mkdir,
rmdir, link, symlink and the contents of files are operations on the ring: no thread is used. The
kernel offers no operation for listdir, scandir, readlink, access, chmod, truncate and copy: workers
of the loop's own driver make those calls (at most 4, made when needed, ended with the loop; the
executor of asyncio is not touched). watch waits on the ring. Where io_uring is denied, the same
workers do all of it.

Errors are os' own, with filename and filename2 as given. A wrong type, an embedded NUL or a
negative size is told by the call itself, before anything is awaited. Cancelled work has ended when
CancelledError arrives: nothing goes on behind it (but an open or a stat that hangs in a dead
file system is left to a worker). Whether a name was changed by then is not told.
"""

from __future__ import annotations

import io
import operator
import os
import stat as kinds
from typing import Any, AnyStr, Callable, Coroutine, overload

from . import _native
from ._copy import Copy, Progress
from ._native import Awaitable
from ._scan import DirEntry, Scan
from ._text import check_text, text_encoding
from ._watch import Change, Watch
from .files import Buffer, StrPath, _flags

__all__ = [
    "Change",
    "DirEntry",
    "access",
    "chmod",
    "copy",
    "exists",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "read_bytes",
    "read_text",
    "readlink",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "scandir",
    "stat",
    "symlink",
    "truncate",
    "unlink",
    "watch",
    "write_bytes",
    "write_text",
]

# ---- looking


def stat(path: StrPath, *, follow_symlinks: bool = True) -> Awaitable[os.stat_result]:
    """Awaits an os.stat_result, as os.stat() gives."""
    return _native.stat(path, follow_symlinks)


def lstat(path: StrPath) -> Awaitable[os.stat_result]:
    """Awaits an os.stat_result, of a symbolic link itself."""
    return _native.stat(path, False)


def access(
    path: StrPath, mode: int, *, effective_ids: bool = False, follow_symlinks: bool = True
) -> Awaitable[bool]:
    """Awaits whether this process may: os.F_OK, or os.R_OK | os.W_OK | os.X_OK. By a worker."""
    return _native.access(path, mode, effective_ids, follow_symlinks)


async def _answer(
    status: Awaitable[os.stat_result] | None, question: Callable[[int], bool]
) -> bool:
    if status is None:
        return False
    try:
        return question((await status).st_mode)
    except OSError:
        return False


def _ask(path: StrPath, question: Callable[[int], bool], *, follow: bool = True) -> Any:
    try:
        status = _native.stat(path, follow)
    except ValueError:
        return _answer(None, question)  # no path can be that: os.path says False, too
    return _answer(status, question)


def exists(path: StrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is there; False for a broken symbolic link, and where it cannot be told."""
    found: Coroutine[Any, Any, bool] = _ask(path, lambda mode: True)
    return found


def isfile(path: StrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a regular file, or a symbolic link to one."""
    found: Coroutine[Any, Any, bool] = _ask(path, kinds.S_ISREG)
    return found


def isdir(path: StrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a directory, or a symbolic link to one."""
    found: Coroutine[Any, Any, bool] = _ask(path, kinds.S_ISDIR)
    return found


def islink(path: StrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a symbolic link, broken or not."""
    found: Coroutine[Any, Any, bool] = _ask(path, kinds.S_ISLNK, follow=False)
    return found


def getsize(path: StrPath) -> Coroutine[Any, Any, int]:
    """Its size in bytes; OSError as stat()."""
    status = _native.stat(path)

    async def size() -> int:
        return (await status).st_size

    return size()


# ---- names


def rename(src: StrPath, dst: StrPath) -> Awaitable[None]:
    """Renames a file or a directory; replaces a file, or an empty directory, at `dst`, in one step.

    Cancelled: it is renamed or it is not, never half.
    """
    return _native.rename(src, dst)


def replace(src: StrPath, dst: StrPath) -> Awaitable[None]:
    """The same as rename(), which replaces on Linux."""
    return _native.rename(src, dst)


def unlink(path: StrPath) -> Awaitable[None]:
    """Removes a name of a file; a symbolic link itself. IsADirectoryError: use rmdir()."""
    return _native.unlink(path)


def remove(path: StrPath) -> Awaitable[None]:
    """The same as unlink()."""
    return _native.unlink(path)


def mkdir(path: StrPath, mode: int = 0o777) -> Awaitable[None]:
    """Makes a directory; FileExistsError if anything has that name. umask applies to `mode`."""
    return _native.mkdir(path, mode)


def makedirs(name: StrPath, mode: int = 0o777, exist_ok: bool = False) -> Coroutine[Any, Any, None]:
    """Makes a directory and those above it that are missing; `mode` is the last one's.

    FileExistsError if it is there, unless `exist_ok` and it is a directory. Cancelled: those that
    it had made stay.
    """
    first = _native.stat(name)
    return _make_directories(os.fspath(name), operator.index(mode), exist_ok, first)


async def _make_directories(path: Any, mode: int, exist_ok: bool, first: Any) -> None:
    missing = []
    parent, look = path, first
    while parent and not await _answer(look, lambda _: True):
        missing.append(parent)
        above = os.path.dirname(parent.rstrip(os.sep if isinstance(parent, str) else b"/"))
        if above == parent:
            break
        parent = above
        look = _native.stat(parent) if parent else None
    for each in reversed(missing[1:]):
        try:
            await _native.mkdir(each, 0o777)
        except FileExistsError:
            pass  # "a/." of a fresh "a", or somebody else was faster
    if len(missing) > 1 and os.fsdecode(os.path.basename(path)) == os.curdir:
        return
    try:
        await _native.mkdir(path, mode)
    except OSError:
        if not exist_ok or not await isdir(path):
            raise


def rmdir(path: StrPath) -> Awaitable[None]:
    """Removes an empty directory."""
    return _native.unlink(path, True)


def link(src: StrPath, dst: StrPath) -> Awaitable[None]:
    """Gives a file a second name; a symbolic link itself, as link(2) does."""
    return _native.link(src, dst)


def symlink(src: StrPath, dst: StrPath, target_is_directory: bool = False) -> Awaitable[None]:
    """Makes `dst` point to `src`. `target_is_directory` says nothing on Linux."""
    return _native.symlink(src, dst)


@overload
def readlink(path: str | os.PathLike[str]) -> Awaitable[str]: ...
@overload
def readlink(path: bytes | os.PathLike[bytes]) -> Awaitable[bytes]: ...
def readlink(path: StrPath) -> Awaitable[Any]:
    """Awaits what a symbolic link points to: bytes for bytes. By a worker."""
    return _native.read_link(path)


def chmod(path: StrPath, mode: int) -> Awaitable[None]:
    """Changes the permissions; follows links. By a worker."""
    return _native.chmod(path, mode)


def truncate(path: StrPath, length: int) -> Awaitable[None]:
    """Cuts or extends a file to `length` bytes. By a worker, which a cancel does not stop."""
    return _native.truncate(path, length)


# ---- directories


@overload
def listdir(path: str | os.PathLike[str] = ".") -> Awaitable[list[str]]: ...
@overload
def listdir(path: bytes | os.PathLike[bytes]) -> Awaitable[list[bytes]]: ...
def listdir(path: StrPath = ".") -> Awaitable[list[Any]]:
    """Awaits the names in a directory, without "." and "..", in no order: bytes for bytes.

    By a worker, in one go; a cancel stops it. Names that are not UTF-8 come as os.fsdecode() says.
    """
    return _native.list_directory(path, False)


@overload
def scandir(path: str | os.PathLike[str] = ".") -> Scan[str]: ...
@overload
def scandir(path: bytes | os.PathLike[bytes]) -> Scan[bytes]: ...
def scandir(path: StrPath = ".") -> Scan[Any]:
    """The entries of a directory: `async for entry in scandir(path)`, each a DirEntry.

    A worker reads the directory when the first entry is awaited, once and whole: no descriptor
    stays open, and what changes later is not seen. OSError comes from the first entry.
    """
    return Scan(os.fspath(path))


# ---- contents


def read_bytes(path: StrPath) -> Awaitable[bytes]:
    """Awaits the contents of a file: open, read and close as one operation."""
    return _native.read_bytes(path)


def read_text(
    path: StrPath, encoding: str | None = None, errors: str | None = None
) -> Coroutine[Any, Any, str]:
    """The contents of a file as text, its line ends as "\\n", as open() reads it."""
    chosen = text_encoding(encoding)
    check_text(chosen, errors, None)
    contents = _native.read_bytes(path)

    async def read() -> str:
        with io.TextIOWrapper(io.BytesIO(await contents), chosen, errors) as text:
            return text.read()

    return read()


def write_bytes(path: StrPath, data: Buffer, *, mode: int = 0o666) -> Coroutine[Any, Any, int]:
    """Makes or replaces the contents of a file; gives their length. `mode`: of a new file.

    A cancel leaves a part of them, as a crash would: write beside and rename where that matters.
    """
    view = memoryview(data)
    if not view.c_contiguous:  # the file would be emptied, and then not written
        raise BufferError("data is not contiguous in memory: give write_bytes() a copy")
    return _write(_native.open_file(path, _flags("wb"), mode), view)


async def _write(opening: Awaitable[_native.File], view: memoryview) -> int:
    with view:
        raw = await opening
        try:
            return await raw.write(view)
        finally:
            await raw.close()


def write_text(
    path: StrPath,
    data: str,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Coroutine[Any, Any, int]:
    """Makes or replaces the contents of a file; gives the number of characters.

    Arguments as open()'s. A cancel as in write_bytes().
    """
    if not isinstance(data, str):
        raise TypeError(f"data must be str, not {type(data).__name__}")
    chosen = text_encoding(encoding)
    check_text(chosen, errors, newline)
    plain = data.replace("\n", newline) if newline in ("\r", "\r\n") else data
    view = memoryview(plain.encode(chosen, errors or "strict"))
    opening = _native.open_file(path, _flags("wb"), 0o666)

    async def write() -> int:
        await _write(opening, view)
        return len(data)

    return write()


def copy(
    src: StrPath,
    dst: StrPath,
    *,
    progress: Progress | None = None,
    follow_symlinks: bool = True,
) -> Coroutine[Any, Any, str | bytes]:
    """Copies a regular file's contents and permissions, as shutil.copy(); gives the copy's path.

    A directory as `dst` gets a file of the same name. `progress(done, total)`, in bytes, is called
    on the loop after every 8 MiB and at the end; what it raises ends the copy. With
    follow_symlinks=False a symbolic link is copied as one.

    The copy grows under a name beside `dst` (.ringloop-….part) and is renamed when it is whole:
    under `dst` there is the old file or the new one, never a part, and a hard link to the old one
    keeps its contents. A cancel or an error removes the part before it is raised; only the end of
    the process leaves it. The data may not be on the disk yet.

    OSError as os' own; shutil.SameFileError, shutil.SpecialFileError for what is no regular file.
    By a worker.
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be callable, not {type(progress).__name__}")
    looks = _native.stat(src, follow_symlinks), _native.stat(dst)
    return Copy(os.fspath(src), os.fspath(dst), progress).run(*looks)


def watch(path: StrPath, *, recursive: bool = False) -> Watch:
    """Changes of a file, or of what is in a directory: `async with watch(path) as changes`, then
    `async for change in changes`.

    A Change has kind, path, old_path and is_dir. kind is "created", "modified" (contents or
    attributes), "deleted", "moved" (old_path was its name; a move into or out of what is watched is
    "created" or "deleted"), or "overflow": the kernel dropped changes, look for yourself. The same
    change twice in a row is told once.

    recursive: directories below as well, also new ones; what is in a new one is told as created. A
    file is watched by its name, so it may be deleted and made anew. When the watched directory
    itself goes, "deleted" with its path is the last change.

    Entering raises OSError: FileNotFoundError, EMFILE (fs.inotify.max_user_instances), ENOSPC
    (max_user_watches), which the iteration may raise, too, for a new directory. Leaving the block
    ends the iteration, also in another task, and removes the watch. A cancelled wait loses nothing.
    """
    return Watch(os.fspath(path), recursive)
