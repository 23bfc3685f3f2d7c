"""Files as awaitables, under any asyncio loop: ringloop.open() and the objects it gives.

Reads and writes go to the ring (or straight to the page cache, when it has the answer and nothing
else is in flight); no thread is used. Writes are not held back in a buffer: when the await ends,
the kernel has the data, and flush() has nothing left to do. Operations at the file's position run
in the order in which they were started, so concurrent ones do not mix; pread() and pwrite() run at
any time.

A cancelled operation loses nothing: the position moves only with what was delivered.
"""

from __future__ import annotations

import codecs
import collections.abc
import io
import os
from typing import Any, AsyncIterator, Generator, Iterable, Literal, overload

from . import _native
from ._text import TextDecoder, check_text, text_encoding

_LINE_CHUNK = 64 * 1024

StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Buffer = bytes | bytearray | memoryview


def _flags(mode: str) -> int:
    """open(2)'s flags for a mode string; ValueError says what is wrong with it."""
    if not isinstance(mode, str):
        raise TypeError(f"mode must be a string, not {type(mode).__name__}")
    letters = set(mode)
    kinds = letters & set("rwxa")
    if letters - set("rwxabt+") or len(letters) != len(mode):
        raise ValueError(f"invalid mode {mode!r}: use one of r, w, x, a, then b or t, then +")
    if len(kinds) != 1:
        raise ValueError(
            f"mode {mode!r} must have exactly one of r (read), w, a (write), x (create)"
        )
    if {"b", "t"} <= letters:
        raise ValueError(f"mode {mode!r} cannot be both text and binary")
    flags = {
        "r": 0,
        "w": os.O_CREAT | os.O_TRUNC,
        "x": os.O_CREAT | os.O_EXCL,
        "a": os.O_CREAT | os.O_APPEND,
    }
    way = os.O_RDWR if "+" in letters else os.O_RDONLY if "r" in letters else os.O_WRONLY
    return flags[kinds.pop()] | way


class _File:
    """What binary and text files share."""

    def __init__(self, raw: _native.File, mode: str) -> None:
        self._raw = raw
        self._mode = mode

    @property
    def name(self) -> Any:
        """The path as it was given to open()."""
        return self._raw.name

    @property
    def mode(self) -> str:
        """The mode as it was given to open()."""
        return self._mode

    @property
    def closed(self) -> bool:
        """True from the start of close() on."""
        return self._raw.closed

    def fileno(self) -> int:
        """The descriptor; ValueError if closed."""
        return self._raw.fileno()

    def readable(self) -> bool:
        """Whether the mode allows reading."""
        self._raw.fileno()
        return self._raw.readable

    def writable(self) -> bool:
        """Whether the mode allows writing."""
        self._raw.fileno()
        return self._raw.writable

    def seekable(self) -> bool:
        """Whether it has a position: not a FIFO, terminal or socket."""
        self._raw.fileno()
        return self._raw.positional

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._raw.fileno())

    def close(self) -> Any:
        """Awaits the end of what is in flight on it, then closes. Closing again is fine."""
        return self._raw.close()

    def fsync(self, *, data_only: bool = False) -> Any:
        """Awaits until the data (and, unless data_only, all metadata) is on the device."""
        return self._raw.fsync(data_only)

    async def flush(self) -> None:
        """Nothing is held back: checks that the file is open."""
        self._raw.fileno()

    def _check_seekable(self) -> None:
        self._raw.fileno()
        if not self._raw.positional:
            raise io.UnsupportedOperation("a stream has no position to seek or tell")

    async def _truncate(self, size: int) -> int:
        if size < 0:
            raise ValueError(f"size must not be negative: {size}")
        if not self.writable():
            raise io.UnsupportedOperation("not writable: open it with a mode that writes")
        # By a worker of the driver: the ring has no operation for it before Linux 6.9.
        await self._raw.truncate(size)
        return size

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<ringloop.{type(self).__name__} {self.name!r} mode={self._mode!r} {state}>"

    async def __aexit__(self, *_: object) -> None:
        await self._raw.close()


class BinaryFile(_File):
    """A file of bytes. What ringloop.open(path, "…b") gives."""

    def __init__(self, raw: Any, mode: str) -> None:
        super().__init__(raw, mode)
        self._ahead = b""  # read for readline() and not yet given out
        self._taken = 0

    async def __aenter__(self) -> BinaryFile:
        return self

    # ---- reading

    def read(self, size: int | None = -1, /) -> Any:
        """Awaits `size` bytes, fewer only at the end; -1 or None: all. Streams give some."""
        if self._ahead:
            return self._read_with_ahead(size)
        return self._raw.read(size)

    def readall(self) -> Any:
        """Awaits everything up to the end."""
        return self.read(-1)

    def readinto(self, buffer: Any, /) -> Any:
        """Awaits bytes into `buffer`, which stays pinned meanwhile; gives their number."""
        if self._ahead:
            return self._readinto_with_ahead(buffer)
        return self._raw.readinto(buffer)

    def pread(self, size: int, offset: int) -> Any:
        """Awaits `size` bytes at `offset`, fewer only at the end; leaves the position alone."""
        return self._raw.pread(size, offset)

    async def readline(self, size: int = -1, /) -> bytes:
        """One line with its b"\\n"; at most `size` bytes of it; b"" at the end."""
        searched = 0
        while True:
            found = self._ahead.find(b"\n", self._taken + searched) + 1
            have = len(self._ahead) - self._taken
            if found:
                have = found - self._taken
            if found or 0 <= size <= have:
                return self._take(have if size < 0 else min(size, have))
            searched = have
            chunk = await self._raw.read(_LINE_CHUNK)
            if not chunk:
                return self._take(len(self._ahead) - self._taken)
            self._ahead = self._ahead[self._taken :] + chunk
            self._taken = 0

    async def readlines(self, hint: int = -1, /) -> list[bytes]:
        """All lines, or lines until `hint` bytes were read."""
        lines: list[bytes] = []
        total = 0
        while line := await self.readline():
            lines.append(line)
            total += len(line)
            if 0 < hint <= total:
                break
        return lines

    async def chunks(self, size: int) -> AsyncIterator[bytes]:
        """The rest of the file in pieces of `size` bytes."""
        if size <= 0:
            raise ValueError(f"chunk size must be positive: {size}")
        while chunk := await self.read(size):
            yield chunk

    def __aiter__(self) -> BinaryFile:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    # ---- writing

    def write(self, data: Buffer, /) -> Any:
        """Awaits until the kernel has all of `data`, pinned meanwhile; gives its length."""
        if self._ahead:
            self._forget_ahead()
        return self._raw.write(data)

    async def writelines(self, lines: Iterable[Buffer], /) -> None:
        """Writes them joined: one operation."""
        await self.write(b"".join(lines))

    def pwrite(self, data: Buffer, offset: int) -> Any:
        """Awaits until `data` is written at `offset`; leaves the position alone."""
        return self._raw.pwrite(data, offset)

    async def truncate(self, size: int | None = None, /) -> int:
        """Cuts or extends the file to `size` bytes (default: the position)."""
        return await self._truncate(self._position() if size is None else size)

    # ---- position

    async def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves the position; gives the new one."""
        self._check_seekable()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position()}.get(whence)
        if whence == io.SEEK_END:
            base = os.fstat(self._raw.fileno()).st_size
        if base is None:
            raise ValueError(f"whence must be 0, 1 or 2, not {whence!r}")
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._ahead, self._taken = b"", 0
        self._raw.position = base + offset
        return base + offset

    async def tell(self) -> int:
        """The position in bytes."""
        self._check_seekable()
        return self._position()

    def _position(self) -> int:
        return self._raw.position - (len(self._ahead) - self._taken)

    def _forget_ahead(self) -> None:
        if self._raw.positional:
            self._raw.position = self._position()
            self._ahead, self._taken = b"", 0

    def _take(self, size: int) -> bytes:
        data = self._ahead[self._taken : self._taken + size]
        self._taken += size
        if self._taken >= len(self._ahead):
            self._ahead, self._taken = b"", 0
        return data

    async def _read_with_ahead(self, size: int | None) -> bytes:
        have = len(self._ahead) - self._taken
        if size is None or size < 0:
            rest = await self._raw.read(size)
        elif size <= have or not self._raw.positional:
            return self._take(size)
        else:
            rest = await self._raw.read(size - have)
        return self._take(have) + rest

    async def _readinto_with_ahead(self, buffer: Any) -> int:
        with memoryview(buffer).cast("B") as view:
            data = await self._read_with_ahead(len(view))
            view[: len(data)] = data
            return len(data)


class TextFile(_File):
    """A file of text. What ringloop.open(path, "r") gives; positions are byte offsets."""

    def __init__(
        self, raw: Any, mode: str, encoding: str, errors: str, newline: str | None
    ) -> None:
        super().__init__(raw, mode)
        self._encoding, self._errors, self._newline = encoding, errors, newline
        self._text = TextDecoder(encoding, errors, newline)
        self._encoder: codecs.IncrementalEncoder | None = None

    async def __aenter__(self) -> TextFile:
        return self

    @property
    def encoding(self) -> str:
        """The name of the encoding."""
        return self._encoding

    @property
    def errors(self) -> str:
        """What happens to bytes or characters that do not fit it."""
        return self._errors

    # ---- reading

    async def read(self, size: int | None = -1, /) -> str:
        """`size` characters, fewer only at the end; -1 or None: all."""
        if size is None or size < 0:
            if size is not None and size < -1:
                raise ValueError(f"read size must be -1 (all) or not negative, not {size}")
            at = self._raw.position
            self._text.feed(at, await self._raw.read(-1))
            self._text.feed(self._raw.position, b"")
            return self._text.take(self._text.available())
        while self._text.available() < size and await self._fill():
            pass
        self._check_readable()
        return self._text.take(size)

    async def readline(self, size: int = -1, /) -> str:
        """One line with its end; at most `size` characters of it; "" at the end."""
        while (length := self._text.line()) is None and not 0 <= size <= self._text.available():
            if not await self._fill():
                length = self._text.available()
                break
        self._check_readable()
        if length is None:
            length = self._text.available()
        return self._text.take(length if size < 0 else min(size, length))

    async def readlines(self, hint: int = -1, /) -> list[str]:
        """All lines, or lines until `hint` characters were read."""
        lines: list[str] = []
        total = 0
        while line := await self.readline():
            lines.append(line)
            total += len(line)
            if 0 < hint <= total:
                break
        return lines

    async def chunks(self, size: int) -> AsyncIterator[str]:
        """The rest of the file in pieces of `size` characters."""
        if size <= 0:
            raise ValueError(f"chunk size must be positive: {size}")
        while chunk := await self.read(size):
            yield chunk

    def __aiter__(self) -> TextFile:
        return self

    async def __anext__(self) -> str:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def _fill(self) -> bool:
        at = self._raw.position
        chunk = await self._raw.read(_LINE_CHUNK)
        self._text.feed(at, chunk)
        return bool(chunk)

    def _check_readable(self) -> None:
        if not self.readable():
            raise io.UnsupportedOperation("not readable: open it with a mode that reads")

    # ---- writing

    async def write(self, text: str, /) -> int:
        """Awaits until the kernel has all of `text`; gives its number of characters."""
        if not isinstance(text, str):
            raise TypeError(f"a text file takes str, not {type(text).__name__}")
        self._leave_reading()
        plain = text
        if self._newline in ("\r", "\r\n"):
            plain = text.replace("\n", self._newline)
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._encoding)(self._errors)
            if self._raw.positional and self._raw.position != 0:
                self._encoder.setstate(0)  # no byte order mark in the middle
        await self._raw.write(self._encoder.encode(plain))
        return len(text)

    async def writelines(self, lines: Iterable[str], /) -> None:
        """Writes them joined: one operation."""
        await self.write("".join(lines))

    async def truncate(self, size: int | None = None, /) -> int:
        """Cuts or extends the file to `size` bytes (default: the position)."""
        return await self._truncate(await self.tell() if size is None else size)

    # ---- position

    async def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves to a byte offset that tell() gave, to the start, or (0, 2) to the end."""
        self._check_seekable()
        if whence == io.SEEK_CUR and offset == 0:
            return await self.tell()
        if whence == io.SEEK_END and offset == 0:
            offset = os.fstat(self._raw.fileno()).st_size
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("text seeks from the start, or by 0 from here or the end")
        if offset < 0:
            raise ValueError(f"negative position {offset}")
        if offset and whence != io.SEEK_END and self._text.stateful:
            raise io.UnsupportedOperation(f"{self._encoding} text seeks to its start or end only")
        self._text.reset()
        self._encoder = None
        self._raw.position = offset
        return offset

    async def tell(self) -> int:
        """The position as a byte offset, for seek()."""
        self._check_seekable()
        return self._text.tell(self._raw.position)

    def _leave_reading(self) -> None:
        if not self._text.idle and self._raw.positional:
            self._raw.position = self._text.tell(self._raw.position)
            self._text.reset()


class _Opening(collections.abc.Coroutine[Any, Any, Any]):
    """open()'s answer: `await` it for the file, or enter it by `async with`."""

    def __init__(self, work: Any, wrap: Any) -> None:
        self._work = work
        self._wrap = wrap
        self._running: collections.abc.Coroutine[Any, Any, Any] | None = None
        self._file: Any = None

    async def _open(self) -> Any:
        return self._wrap(await self._work)

    def _coroutine(self) -> collections.abc.Coroutine[Any, Any, Any]:
        if self._running is None:
            self._running = self._open()
        return self._running

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine().__await__()

    def send(self, value: Any) -> Any:
        """Runs it as a coroutine."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Runs it as a coroutine."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """Gives up; a file being opened is closed again."""
        if self._running is not None:
            self._running.close()
        else:
            self._work.close()

    async def __aenter__(self) -> Any:
        self._file = await self._coroutine()
        return self._file

    async def __aexit__(self, *_: object) -> None:
        await self._file.close()


BinaryMode = Literal["rb", "r+b", "rb+", "wb", "w+b", "wb+", "xb", "x+b", "xb+", "ab", "a+b", "ab+"]


@overload
def open(file: StrPath, mode: BinaryMode, buffering: int = -1) -> Any: ...
@overload
def open(
    file: StrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Any: ...
def open(
    file: StrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> Any:
    """Opens a file: `async with open(…) as f` or `f = await open(…)`.

    Arguments as the builtin's. `buffering` is accepted for compatibility and changes nothing:
    reads take what they ask for, writes go to the kernel. A FIFO opens at once; its reads wait.
    """
    flags = _flags(mode)
    if not isinstance(buffering, int):
        raise TypeError(f"buffering must be an int, not {type(buffering).__name__}")
    work = None
    if "b" in mode:
        for name, value in (("encoding", encoding), ("errors", errors), ("newline", newline)):
            if value is not None:
                raise ValueError(f"a binary mode takes no {name}=: drop it, or the b of {mode!r}")
        work = _native.open_file(file, flags, 0o666)
        return _Opening(work, lambda raw: BinaryFile(raw, mode))
    chosen = text_encoding(encoding)
    check_text(chosen, errors, newline)
    work = _native.open_file(file, flags, 0o666)
    return _Opening(work, lambda raw: TextFile(raw, mode, chosen, errors or "strict", newline))
