"""OwnedFd: a descriptor with one owner, which closes it. Any thread."""

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any

_held: dict[int, weakref.ref[OwnedFd]] = {}  # open ones, for fdinfo()


class OwnedFd:
    """An open descriptor, and whose it is: close() or the end of the object closes it.

    fd: an open descriptor, which is this object's from here on; OSError if it is not open. detach()
    gives it up: socket.socket(fileno=owned.detach()), os.fdopen(owned.detach(), "rb"). Lost while
    open, it is closed with a ResourceWarning.
    """

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = -1
        if not isinstance(fd, int):
            raise TypeError(f"a descriptor is an int, not {fd!r}")
        check_open(fd)
        self._fd = fd
        _held[fd] = weakref.ref(self)

    def fileno(self) -> int:
        """The descriptor; ValueError once it is closed or given up."""
        if self._fd < 0:
            raise ValueError("this OwnedFd is closed, or has given its descriptor up")
        return self._fd

    def detach(self) -> int:
        """Gives the descriptor up, open: the caller owns it. ValueError if it is closed."""
        fd = self.fileno()
        self._fd = -1
        _held.pop(fd, None)
        return fd

    def close(self) -> None:
        """Closes it. Twice is fine."""
        if self._fd >= 0:
            os.close(self.detach())

    @property
    def closed(self) -> bool:
        """Whether it is closed or given up."""
        return self._fd < 0

    def __enter__(self) -> OwnedFd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be copied or pickled: a descriptor has one owner; os.dup() makes "
            "another, ringloop.send_handle() brings it to another process"
        )

    def __repr__(self) -> str:
        return f"<OwnedFd {self._fd if self._fd >= 0 else 'closed'}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if self._fd >= 0:
            _warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()


def check_open(fd: int) -> os.stat_result:
    """Its fstat(); OSError, which names it, if no descriptor of that number is open."""
    try:
        return os.fstat(fd)
    except OSError as error:
        raise OSError(error.errno, f"{fd} is no open descriptor") from None


def held_by_handles(fd: int = -1) -> list[tuple[int, str]]:
    """(descriptor, repr) of the open OwnedFds; of those of one descriptor."""
    pairs = list(_held.items()) if fd < 0 else [(fd, _held.get(fd))]
    alive = ((number, reference()) for number, reference in pairs if reference is not None)
    return [(number, repr(owned)) for number, owned in alive if owned is not None]
