"""fdinfo(): who of this process has a descriptor, and which epoll sets watch it.

Nothing is registered anywhere: the loops, servers, sock_* calls and files are asked when somebody
wants to know, the kernel by /proc/self and kcmp(). Cold code, for people and for checks. Any
thread; what other threads do meanwhile may or may not be in the answer.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import _native
from ._native import FdConflictError
from ._owned import OwnedFd, check_open, held_by_handles

_EPOLL = "anon_inode:[eventpoll]"


@dataclass(frozen=True)
class FdOwner:
    """Who has a descriptor.

    kind: "transport", "datagram transport", "reader" and "writer" (add_reader(), add_writer()),
    "server", "socket call" (a sock_* in flight), "native task" (while it waits for the descriptor,
    on a loop that does not run in another thread), "file" (ringloop.open()), "handle"
    (ringloop.OwnedFd), "ring" (a loop's own). name: its repr. loop: whose it is, None for files
    and handles. thread: the ident of the thread that runs this loop, None while none does.
    """

    kind: str
    name: str
    state: str
    loop: Any = None
    thread: int | None = None

    def __str__(self) -> str:
        where = "" if self.thread is None else f", in thread {self.thread}"
        return f"{self.kind} {self.name}: {self.state}{where}"


@dataclass(frozen=True)
class Duplicate:
    """Another descriptor of the same open file description, and who has it.

    certain: the kernel says that they are one (kcmp()); else they are of one inode, which for
    sockets is the same.
    """

    fd: int
    owners: tuple[FdOwner, ...]
    certain: bool


@dataclass(frozen=True)
class EpollEntry:
    """An epoll set of this process that watches a descriptor.

    fd: the number by which it was added: a duplicate's, perhaps, which may be closed since. events:
    EPOLLIN and others. loop: ours, on the epoll backend, or whose guest it is; None: foreign.
    """

    epoll_fd: int
    fd: int
    events: int
    loop: Any = None


@dataclass(frozen=True)
class FdInfo:
    """What fdinfo() found. name: what /proc says that it is."""

    fd: int
    name: str
    owners: tuple[FdOwner, ...]
    duplicates: tuple[Duplicate, ...]
    epolls: tuple[EpollEntry, ...]

    def __str__(self) -> str:
        lines = [f"descriptor {self.fd}: {self.name}"]
        lines += [f"  {owner}" for owner in self.owners] or ["  nobody of ringloop's has it"]
        for same in self.duplicates:
            lines += [f"  the same file is descriptor {same.fd}: {owner}" for owner in same.owners]
        for entry in self.epolls:
            whose = "another library's" if entry.loop is None else f"of {entry.loop!r}"
            lines.append(
                f"  epoll set {entry.epoll_fd}, {whose}, watches it as descriptor {entry.fd} "
                f"(events {entry.events:#x})"
            )
        return "\n".join(lines)


def fdinfo(fd: Any) -> FdInfo:
    """Who of ringloop's has `fd` (an int or what has a fileno()), in whichever thread.

    Also: which other descriptors of the same open file description are held, and which epoll sets
    of this process watch it. OSError if it is not open.
    """
    number = number_of(fd)
    identity = _identity(number)
    return FdInfo(
        number,
        os.readlink(f"/proc/self/fd/{number}"),
        owners_of(number),
        tuple(_duplicates(number, identity)),
        tuple(entries_of(number, epoll_entries())),
    )


def number_of(fd: Any) -> int:
    """The descriptor behind an int or a fileno(); ValueError for what is closed."""
    number = fd
    if not isinstance(fd, int):
        fileno = getattr(fd, "fileno", None)
        if fileno is None:
            raise TypeError(f"a descriptor, or an object with a fileno(), is needed, not {fd!r}")
        number = fileno()
    if number < 0:
        raise ValueError(f"{fd!r} is closed, or no descriptor")
    return int(number)


def owners_of(fd: int) -> tuple[FdOwner, ...]:
    """Those that have this number."""
    found = [_owner(*rest) for _, *rest in _native.owners(fd)]
    return (*found, *(FdOwner("handle", name, "open") for _, name in held_by_handles(fd)))


def all_owned() -> dict[int, list[FdOwner]]:
    """Every descriptor that anybody has, in order."""
    found: dict[int, list[FdOwner]] = {}
    for fd, *rest in _native.owners(-1):
        found.setdefault(fd, []).append(_owner(*rest))
    for fd, name in held_by_handles():
        found.setdefault(fd, []).append(FdOwner("handle", name, "open"))
    return dict(sorted(found.items()))


def check_free(fd: int, wanted_by: str, kinds: tuple[str, ...] = ()) -> None:
    """FdConflictError if somebody (of `kinds`, if there are any) has the descriptor."""
    for _, kind, holder, _, state in _native.owners(fd):
        if not kinds or kind in kinds:
            raise _conflict(fd, f"{kind} {holder!r} ({state})", wanted_by)


def check_giver(given: Any, wanted_by: str) -> int:
    """The descriptor that `given` may give away: FdConflictError if somebody else has it, a loop or
    another object that closes it."""
    fd = number_of(given)
    check_free(fd, wanted_by)
    if not isinstance(given, OwnedFd):
        for _, name in held_by_handles(fd):
            raise _conflict(fd, f"handle {name} (open)", wanted_by)
    return fd


def _conflict(fd: int, held_by: str, wanted_by: str) -> FdConflictError:
    error = FdConflictError(
        f"File descriptor {fd} is used by {held_by}, and wanted by {wanted_by}: whoever has it "
        "must give it up first (close it, or ringloop.detach())"
    )
    error.fd, error.held_by, error.wanted_by = fd, held_by, wanted_by
    return error


def give_up(given: Any, wanted_by: str) -> int:
    """The descriptor of a socket or an OwnedFd, which is the caller's now: `given` has none any
    more. FdConflictError if a loop of this process has it, TypeError for other objects, also those
    that look alike (a file gives up another file); then nothing has changed."""
    tls: Any = sys.modules.get("ssl")  # not imported: then nobody has a socket of it
    if tls is not None and isinstance(given, tls.SSLSocket):
        raise TypeError(f"{wanted_by} takes no SSLSocket: its keys and its records stay with it")
    if not isinstance(given, (socket.socket, OwnedFd)):
        raise TypeError(f"{wanted_by} takes a socket or an OwnedFd, not {given!r}")
    check_giver(given, wanted_by)
    return given.detach()


def _owner(kind: str, holder: Any, loop: Any, state: str) -> FdOwner:
    return FdOwner(kind, repr(holder), state, loop, getattr(loop, "_thread_id", None))


# ---- one open file description, several descriptors

_Identity = tuple[int, int, bool]  # device, inode, and whether these two tell a file from others


def _identity(fd: int) -> _Identity:
    found = check_open(fd)
    # Of what has no kind (epoll sets, eventfds, rings) all are one inode; and a file or a pipe may
    # be opened twice.
    return found.st_dev, found.st_ino, stat.S_ISSOCK(found.st_mode)


def _duplicates(fd: int, identity: _Identity) -> Iterator[Duplicate]:
    for other, owners in all_owned().items():
        if other == fd:
            continue
        same = _native.same_file(fd, other)
        certain = same is not None
        if same is None:
            try:
                same = identity[2] and _identity(other) == identity
            except OSError:  # closed behind its owner's back
                continue
        if same:
            yield Duplicate(other, tuple(owners), certain)


# ---- epoll sets

@dataclass(frozen=True)
class _Entry(EpollEntry):
    nth: int = 0  # of those that were added by one number
    identity: tuple[int, int] = (0, 0)  # device, inode


def epoll_entries() -> Iterator[_Entry]:
    """What all epoll sets of this process watch."""
    rings = {fd: loop for fd, kind, _, loop, _ in _native.owners(-1) if kind == "ring"}
    for word in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{word}") != _EPOLL:
                continue
            with open(f"/proc/self/fdinfo/{word}", encoding="ascii") as file:
                text = file.read()
        except FileNotFoundError:  # closed since it was listed
            continue
        yield from _parsed(int(word), rings.get(int(word)), text)


def _parsed(epoll_fd: int, loop: Any, text: str) -> Iterator[_Entry]:
    seen: dict[int, int] = {}
    for line in text.splitlines():
        if not line.startswith("tfd:"):
            continue
        # "tfd: 5 events: 19 data: 5 pos:0 ino:61 sdev:9": numbers after the third are hexadecimal
        words = line.replace(":", " ").split()
        values = dict(zip(words[::2], words[1::2]))
        fd = int(values["tfd"])
        nth = seen.get(fd, 0)
        seen[fd] = nth + 1
        device = int(values.get("sdev", "0"), 16)
        # As the kernel keeps it: 20 bits of minor number.
        identity = os.makedev(device >> 20, device & 0xFFFFF), int(values.get("ino", "0"), 16)
        yield _Entry(epoll_fd, fd, int(values["events"], 16), loop, nth, identity)


def entries_of(fd: int, entries: Iterable[_Entry]) -> Iterator[EpollEntry]:
    """Those of `entries` that are of the file of `fd`; none if it is not open."""
    try:
        identity = _identity(fd)
    except OSError:  # closed behind its owner's back
        return
    for entry in entries:
        if _is_entry_of(entry, fd, identity):
            yield EpollEntry(entry.epoll_fd, entry.fd, entry.events, entry.loop)


def _is_entry_of(entry: _Entry, fd: int, identity: _Identity) -> bool:
    if entry.identity != identity[:2]:
        return False
    same = _native.same_as_epoll_entry(fd, entry.epoll_fd, entry.fd, entry.nth)
    if same is None:  # nobody tells: a socket's inode does, else the number is all that there is
        return identity[2] or entry.fd == fd
    return same
