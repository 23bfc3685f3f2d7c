"""fs.watch(): changes of a file or below a directory, by inotify; its descriptor is on the ring.

One descriptor a watch, polled like any other file of the loop; no thread waits. Workers only look
paths up, where a watch is added and where a new directory is listed. Leaving the block ends the
iteration wherever it waits, and closes the descriptor, with which the kernel drops every watch.

A cancelled __anext__ loses nothing: what was read stays for the next one.
"""

from __future__ import annotations

import asyncio
import collections
import os
import stat as kinds
import struct
from typing import Any, Iterable, Literal, NamedTuple

from . import _native
from ._copy import behind_links

Path = str | bytes
Kind = Literal["created", "modified", "deleted", "moved", "overflow"]

_HEADER = struct.Struct("iIII")
_ROOM = 64 * 1024
_EVENT_SIZE_MAX = _HEADER.size + 256
# A move's two halves are queued one right after the other: how long the second may take.
_PAIR_S = 0.05

_MODIFY, _ATTRIB = 0x2, 0x4
_MOVED_FROM, _MOVED_TO = 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_DIRECTORY, _DONT_FOLLOW, _IS_DIRECTORY = 0x0100_0000, 0x0200_0000, 0x4000_0000

_EVENTS = _MODIFY | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_DIRECTORY
_ROOT_EVENTS = _EVENTS | _DELETE_SELF | _MOVE_SELF


class Change(NamedTuple):
    """What happened. `path` begins with the path that was watched."""

    kind: Kind
    path: Any
    old_path: Any = None  # of "moved": the name before
    is_dir: bool = False


class _Event(NamedTuple):
    watch: int
    mask: int
    cookie: int
    name: bytes


def _parse(data: bytes) -> Iterable[_Event]:
    at = 0
    while at < len(data):
        watch, mask, cookie, size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield _Event(watch, mask, cookie, data[at : at + size].rstrip(b"\0"))
        at += size


class Watch:
    """What watch() gives: enter it by `async with`, then iterate."""

    def __init__(self, path: Path, recursive: bool) -> None:
        self._root = path
        self._recursive = recursive
        self._look: Any = _native.stat(path)  # refuses bad arguments now
        self._only: bytes | None = None  # of a file: its name in the directory that is watched
        self._file: Any = None
        self._paths: dict[int, Path] = {}  # the directory behind each watch's number
        self._numbers: dict[Path, int] = {}
        self._events: collections.deque[_Event] = collections.deque()  # read, not yet understood
        self._ready: collections.deque[Change] = collections.deque()
        self._found: set[Path] = set()  # told from a listing: their events may still come
        self._listed = self._drained = False
        self._reading: Any = None
        self._busy = self._ended = False
        self._root_number = -1

    async def __aenter__(self) -> Watch:
        if self._look is None:
            raise RuntimeError("a watch is entered once: call watch() again")
        look, self._look = self._look, None
        directory = kinds.S_ISDIR((await look).st_mode)
        self._file = _native.open_watcher(self._root)
        try:
            if directory:
                await self._add(self._root, self._root, _ROOT_EVENTS)
                if self._recursive:
                    await self._add_below(self._root)
            else:
                await self._add_parent()
        except BaseException:
            await self._file.close()
            raise
        self._root_number = next(iter(self._paths))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = True
        closing = self._file.close()
        if self._reading is not None:
            self._reading.cancel()
        await closing

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        if self._file is None:
            raise RuntimeError("enter the watch first: async with watch(path) as changes")
        if self._busy:
            raise RuntimeError("another task waits for the next change of this watch")
        self._busy = True
        try:
            while not self._ready and not self._ended:
                await self._take()
        except OSError:
            if not self._ended:
                raise
        finally:
            self._busy = False
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.popleft()

    # ---- watches

    async def _add(self, path: Path, told: Path, events: int) -> None:
        number = await _native.add_watch(self._file, path, events)
        self._numbers.pop(self._paths.get(number, told), None)
        self._paths[number] = told
        self._numbers[told] = number

    async def _add_parent(self) -> None:
        """A file is watched by its name, so that it may be replaced."""
        folder, name = os.path.split(await behind_links(self._root))
        self._only = os.fsencode(name)
        here = folder or (b"." if isinstance(folder, bytes) else ".")
        await self._add(here, folder, _ROOT_EVENTS)

    async def _add_below(self, path: Path) -> list[Change]:
        """Watches the directories below one, and itself; what is there, as if created now."""
        there: list[Change] = []
        waiting = [path]
        self._listed = True
        while waiting:
            folder = waiting.pop()
            try:
                if folder != self._root:
                    await self._add(folder, folder, _EVENTS | _DONT_FOLLOW)
                listed = await _native.list_directory(folder, True)
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone again: its parent's events tell
            for name, _, kind, _ in listed:
                entry = os.path.join(folder, name)
                is_dir = kind == kinds.S_IFDIR >> 12
                there.append(Change("created", entry, None, is_dir))
                if is_dir:
                    waiting.append(entry)
        return there

    def _drop_below(self, path: Path) -> None:
        for each in self._below(path):
            number = self._numbers.pop(each)
            del self._paths[number]
            _native.remove_watch(self._file, number)

    def _move_below(self, old: Path, new: Path) -> None:
        for each in self._below(old):
            number = self._numbers.pop(each)
            moved: Any = new + each[len(old) :]  # type: ignore[operator]
            self._paths[number] = moved
            self._numbers[moved] = number

    def _below(self, path: Any) -> list[Path]:
        start: Any = os.path.join(path, b"" if isinstance(path, bytes) else "")
        return [each for each in self._numbers if each == path or each.startswith(start)]

    # ---- events

    def _left(self) -> bool:
        return self._ended

    async def _read(self) -> None:
        if self._ended:
            return
        self._reading = self._file.read(_ROOM)
        try:
            data = await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._left() and (task is None or not task.cancelling()):
                return  # another task has left the block
            raise
        finally:
            self._reading = None
        self._drained = len(data) < _ROOM - _EVENT_SIZE_MAX
        self._events.extend(_parse(data))

    async def _take(self) -> None:
        """Understands what has been read, or the next that is. An event leaves its queue when it
        has been dealt with, so a cancel here loses none."""
        if not self._events:
            self._listed = False
            await self._read()
        while self._events and not self._ended:
            event = self._events[0]
            pair = await self._pair(event) if event.mask & _MOVED_FROM else None
            try:
                changes = await self._understand(event, pair)
            except OSError:
                self._events.popleft()  # the next call goes on behind it
                raise
            self._events.popleft()
            if pair is not None:
                self._events.remove(pair)
            for change in changes:
                if not self._ready or self._ready[-1] != change:
                    self._ready.append(change)
        if self._drained and not self._listed:
            self._found.clear()  # the kernel's queue held nothing older

    async def _pair(self, moved: _Event) -> _Event | None:
        if len(self._events) == 1:
            try:
                async with asyncio.timeout(_PAIR_S):
                    await self._read()
            except TimeoutError:
                return None  # it has left what is watched
        for event in self._events:
            if event.mask & _MOVED_TO and event.cookie == moved.cookie:
                return event
        return None

    def _path_of(self, event: _Event) -> Any:
        """None: of no interest, or of a watch that was dropped."""
        folder = self._paths.get(event.watch)
        if folder is None:
            return None
        if self._only is not None:
            if event.name == self._only:
                return self._root
        elif not event.name:
            return folder if folder == self._root else None  # else its parent tells, too
        name = event.name if isinstance(folder, bytes) else os.fsdecode(event.name)
        return os.path.join(folder, name)  # type: ignore[arg-type]

    async def _understand(self, event: _Event, pair: _Event | None) -> list[Change]:
        mask = event.mask
        if mask & _OVERFLOW:
            if self._recursive and self._only is None:
                await self._add_below(self._root)
            return [Change("overflow", self._root)]
        if mask & _IGNORED:
            self._forget(event.watch)
            return []
        path = self._path_of(event)
        if path is None or (self._only and self._only not in (event.name, pair and pair.name)):
            return self._root_gone(event)
        if mask & (_DELETE_SELF | _MOVE_SELF | _UNMOUNT):
            return self._root_gone(event)
        is_dir = bool(mask & _IS_DIRECTORY)
        if mask & _MOVED_FROM:
            return self._moved(path, None if pair is None else self._path_of(pair), is_dir)
        if mask & _DELETE:
            self._found.discard(path)
            return [Change("deleted", path, None, is_dir)]
        if mask & (_CREATE | _MOVED_TO):
            return await self._created(path, is_dir)
        return [Change("modified", path, None, is_dir)]

    async def _created(self, path: Path, is_dir: bool) -> list[Change]:
        below = []
        if is_dir and self._recursive and self._only is None:
            below = await self._add_below(path)
        changes = [Change("created", path, None, is_dir), *below]
        new = [each for each in changes if each.path not in self._found]
        self._found.discard(path)
        self._found.update(each.path for each in below)
        return new

    def _moved(self, old: Path, new: Path | None, is_dir: bool) -> list[Change]:
        self._found.discard(old)
        if new is not None:
            if is_dir:
                self._move_below(old, new)
            return [Change("moved", new, old, is_dir)]
        if is_dir:
            self._drop_below(old)
        return [Change("deleted", old, None, is_dir)]

    def _forget(self, number: int) -> None:
        path = self._paths.pop(number, None)
        if path is not None:
            self._numbers.pop(path, None)

    def _root_gone(self, event: _Event) -> list[Change]:
        """The last change of all, where the event says so: the watched path is gone."""
        gone = event.mask & (_DELETE_SELF | _MOVE_SELF | _UNMOUNT)
        if not gone or event.watch != self._root_number:
            return []
        self._ended = True
        return [Change("deleted", self._root, None, self._only is None)]
