"""Text over bytes that arrive in chunks: decoding, line ends, and where in the bytes one stands.

No I/O here. Used by files.py.
"""

from __future__ import annotations

import codecs
import collections
import io
import locale
import sys
from typing import Any, NamedTuple

_NEWLINES = (None, "", "\n", "\r", "\r\n")
# A decoder of these in the middle of a text does not know the byte order or what a mark means.
_STATEFUL = {"utf-16", "utf-32", "utf-7", "utf-8-sig"}


def text_encoding(encoding: str | None) -> str:
    """The encoding asked for, or the one the builtin open() takes here."""
    if encoding is None or encoding == "locale":
        return "utf-8" if sys.flags.utf8_mode else locale.getencoding()
    if not isinstance(encoding, str):
        raise TypeError(f"encoding must be a string, not {type(encoding).__name__}")
    return encoding


def check_text(encoding: str, errors: str | None, newline: str | None) -> None:
    """Raises LookupError or ValueError for what TextDecoder could not work with."""
    if not codecs.lookup(encoding)._is_text_encoding:
        raise LookupError(f"{encoding!r} is not a text encoding")
    if errors is not None:
        codecs.lookup_error(errors)
    if newline not in _NEWLINES:
        raise ValueError(f"newline must be None, '', '\\n', '\\r' or '\\r\\n', not {newline!r}")


class _Piece(NamedTuple):
    """One chunk as it was decoded: enough to find a byte offset inside it again."""

    first: int  # number of the first character it gave
    offset: int  # of its first byte
    state: Any  # of the decoder before it
    data: bytes


class TextDecoder:
    """Characters not yet given out, and the pieces of the file that they came from."""

    def __init__(self, encoding: str, errors: str, newline: str | None) -> None:
        self._make = codecs.getincrementaldecoder(encoding)
        self._errors, self._newline = errors, newline
        self.stateful = codecs.lookup(encoding).name in _STATEFUL
        self.reset()

    def reset(self) -> None:
        """Forgets everything: the next feed() starts a text."""
        self._decoder = self._new_decoder()
        self._pieces: collections.deque[_Piece] = collections.deque()
        self._chars = ""
        self._next = 0  # in _chars
        self._before = 0  # characters given out and no longer in _chars
        self._pending_cr = False

    def _new_decoder(self) -> Any:
        decoder = self._make(self._errors)
        if self._newline in (None, ""):
            return io.IncrementalNewlineDecoder(decoder, translate=self._newline is None)
        return decoder

    @property
    def idle(self) -> bool:
        """Nothing was read since reset()."""
        return not self._pieces

    def available(self) -> int:
        """Characters that take() can give."""
        return len(self._chars) - self._next

    def feed(self, offset: int, data: bytes) -> None:
        """Bytes that stand at `offset`; none: the end of the file."""
        state = self._decoder.getstate()
        text = self._decoder.decode(data, final=not data)
        if not data and not text:
            return
        self._before += self._next
        self._chars = self._chars[self._next :] + text
        self._next = 0
        while len(self._pieces) > 1 and self._pieces[1].first <= self._before:
            self._pieces.popleft()
        self._pieces.append(
            _Piece(self._before + len(self._chars) - len(text), offset, state, data)
        )

    def take(self, count: int) -> str:
        """The next `count` characters, fewer if there are not as many."""
        text = self._chars[self._next : self._next + count]
        self._next += len(text)
        return text

    def line(self) -> int | None:
        """The length of the next line with its end; None if its end is not here yet."""
        if self._newline == "":
            return self._universal_line()
        end = self._newline or "\n"
        found = self._chars.find(end, self._next)
        return None if found < 0 else found + len(end) - self._next

    def _universal_line(self) -> int | None:
        ends = [at for at in (self._chars.find(end, self._next) for end in "\n\r") if at >= 0]
        if not ends:
            return None
        at = min(ends)
        length = 2 if self._chars.startswith("\r\n", at) else 1
        return at + length - self._next

    def tell(self, position: int) -> int:
        """The byte offset of the next character; `position`: where reading stands."""
        if not self._pieces or (not self.available() and not self._decoder.getstate()[0]):
            return position
        wanted = self._before + self._next
        piece = next(p for p in reversed(self._pieces) if p.first <= wanted)
        count = wanted - piece.first
        low, high = 0, len(piece.data)
        while low < high:  # the fewest bytes that give `count` characters
            middle = (low + high) // 2
            if self._decoded(piece, middle)[0] < count:
                low = middle + 1
            else:
                high = middle
        length, pending = self._decoded(piece, low)
        # One byte can end two characters: a lone "\r" shows only with what follows it.
        at: int = piece.offset + low - pending - (1 if length > count else 0)
        return at

    def _decoded(self, piece: _Piece, size: int) -> tuple[int, int]:
        decoder = self._new_decoder()
        decoder.setstate(piece.state)
        text = decoder.decode(piece.data[:size])
        return len(text), len(decoder.getstate()[0])
