"""Native memory of this process's ringloop: how much there is, who is told of it.

Counted is what the runtime and the bridge take from the system and Python can make grow, at the
moment when a block is taken or given back: see MemoryStats. Coroutine frames and other hot memory
is reused from pools, so in a steady state there is nothing to count. Python objects of ringloop's
(awaitables, what they keep of their work, transports) are in Python's own memory, where tracemalloc
sees them like any other object; ringloop.stats() has their numbers.

While tracemalloc traces, each block is in its domain DOMAIN, with the line that took it:

    snapshot.filter_traces([tracemalloc.DomainFilter(True, ringloop.memory.DOMAIN)])

The domain has the blocks that were taken while it traced, and their sum is exactly stats().bytes
where that was from the start on (python -X tracemalloc). Blocks that a thread without the GIL takes
have the line of the next one that has it.

Thread: any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from . import _native

__all__ = ["DOMAIN", "MemoryStats", "Registration", "Usage", "register_hook", "stats"]

# tracemalloc's number for native memory of ringloop's.
DOMAIN: int = _native.TRACEMALLOC_DOMAIN

_lock = threading.Lock()
_registrations: list[Registration] = []


@dataclass(frozen=True)
class Usage:
    """Memory that is there now."""

    bytes: int
    blocks: int


@dataclass(frozen=True)
class MemoryStats:
    """What native code has from the system now; bytes and blocks are the sums of all kinds.

    - frames: of native coroutines, with those that are kept for reuse: kept_frames, at most 256 KiB
      of each size and thread.
    - receive_pools: buffers into which the kernel receives, of each loop and of each guest of a
      foreign loop. Mapped as a whole; the kernel gives pages when they are used.
    - receive_copies: received bytes that native code holds beside the pool, which was short.
    - shared_handles: memory of SharedHandle objects, of this side.
    - kernel_results: of ringloop.kernels, until they are a Python object (arrays that a kernel
      fills are numpy's or Python's from the start).
    - other: what extension modules take by <ringloop/memory.hpp>.

    In a forked child it has what was the parent's at the fork.
    """

    frames: Usage
    kept_frames: Usage
    receive_pools: Usage
    receive_copies: Usage
    shared_handles: Usage
    kernel_results: Usage
    other: Usage

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self._kinds())

    @property
    def blocks(self) -> int:
        return sum(each.blocks for each in self._kinds())

    def _kinds(self) -> tuple[Usage, ...]:
        return (
            self.frames,
            self.receive_pools,
            self.receive_copies,
            self.shared_handles,
            self.kernel_results,
            self.other,
        )


def stats() -> MemoryStats:
    """The account of this moment. What waits to be told to tracemalloc and to hooks is told first,
    so that a snapshot afterwards has the same."""
    return MemoryStats(**{kind: Usage(*pair) for kind, pair in _native.memory_statistics().items()})


class Registration:
    """What register_hook() gives: remove() ends it, as does leaving it by `with`."""

    def __init__(
        self, alloc: Callable[[int, int], object] | None, free: Callable[[int, int], object] | None
    ) -> None:
        self._alloc, self._free = alloc, free

    def remove(self) -> None:
        """What has happened until now is told first, then nothing more. Once is enough."""
        _tell_waiting()
        with _lock:
            if self in _registrations:
                _registrations.remove(self)
                _install()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(
    *,
    alloc: Callable[[int, int], object] | None = None,
    free: Callable[[int, int], object] | None = None,
) -> Registration:
    """Calls alloc(address, bytes) for each block that native code takes, and free(address, bytes)
    for each that it gives back, until the registration is removed.

    They are called soon afterwards, in order, one at a time, by the main thread or by whoever asks
    for stats(): blocks come and go where no Python may run. The address is a name, not to be read:
    the block may be gone. What a hook raises goes to sys.unraisablehook. TypeError for what is not
    callable, and where none is given.
    """
    if alloc is None and free is None:
        raise TypeError("memory.register_hook() takes at least one of alloc, free")
    for name, function in (("alloc", alloc), ("free", free)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} is a function of address and bytes, not {function!r}")
    registration = Registration(alloc, free)
    _tell_waiting()
    with _lock:
        _registrations.append(registration)
        _install()
    return registration


def _tell_waiting() -> None:
    """Not under the lock: hooks may register hooks."""
    _native.memory_statistics()


def _install() -> None:
    _native._set_memory_hooks(
        tuple(each._alloc for each in _registrations if each._alloc is not None),
        tuple(each._free for each in _registrations if each._free is not None),
    )
