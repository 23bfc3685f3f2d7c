"""Living with other libraries in one process: who else watches what the loops have."""

from __future__ import annotations

from dataclasses import dataclass

from . import _owners
from ._owners import FdOwner

__all__ = ["ForeignWatch", "detect_foreign_epoll"]


@dataclass(frozen=True)
class ForeignWatch:
    """A descriptor that somebody of ringloop's has, and another library's epoll set watches.

    entry: the number by which that set knows it: the same, or a duplicate's. events: EPOLLIN and
    others, by which it is woken.
    """

    fd: int
    epoll_fd: int
    entry: int
    events: int
    owners: tuple[FdOwner, ...]

    def __str__(self) -> str:
        owners = "; ".join(map(str, self.owners))
        return (
            f"descriptor {self.fd} is watched by epoll set {self.epoll_fd} as {self.entry} "
            f"(events {self.events:#x}), and it is of {owners}"
        )


def detect_foreign_epoll() -> list[ForeignWatch]:
    """Descriptors of our loops, files and handles that an epoll set of somebody else watches, too.

    Both are woken when something arrives, and one of them finds nothing, or takes what the other
    should have had. Empty where all is well. Sets are found by their descriptors in /proc/self, in
    any thread; those that ringloop's epoll backend makes are its own, and are left out, as rings
    are that a foreign loop watches for our awaitables.
    """
    entries = [entry for entry in _owners.epoll_entries() if entry.loop is None]
    found = []
    for fd, owners in _owners.all_owned().items() if entries else ():
        if all(owner.kind == "ring" for owner in owners):
            continue
        for entry in _owners.entries_of(fd, entries):
            found.append(
                ForeignWatch(fd, entry.epoll_fd, entry.fd, entry.events, tuple(owners))
            )
    return found
