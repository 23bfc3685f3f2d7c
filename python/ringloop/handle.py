"""SharedHandle: awaits that other code completes, without the GIL, from any thread and from other
processes.

The memory, the descriptors and who gets them; what runs per completion is native (HandleCore).

Thread: the loop's, except close(): any.
"""

from __future__ import annotations

import fcntl
import operator
import os
import warnings
from typing import Any, NamedTuple

from . import _native


class HandleDescriptors(NamedTuple):
    """What another process attaches by. They belong to the SharedHandle and go with it: inherit
    them (subprocess's pass_fds) or send duplicates (socket.send_fds)."""

    memory: int
    wake: int
    alive: int  # a pidfd of the loop's process


class SharedHandle(_native.HandleCore):
    """Awaits of one event loop that extensions and other processes complete.

    submit() reserves a slot and gives a token; who completes the token, by <ringloop/handle.h> or a
    HandleProducer, ends the await with None, an int, a float, bytes or an OSError. A completion
    never waits, allocates nothing and cannot fail for want of room; completions of one lane arrive
    in their order.

    lanes: 1 to 256, one for each process that produces; threads of this process may share them.
    slots: of each lane, how many tokens may be open at once; rounded up to a power of two, at most
    65,536. submit() raises BlockingIOError beyond that. Memory is used as slots are: 68 bytes each.

    It binds the running loop at the first submit(); it works under any loop. A cancelled await
    ends at once, and its slot is free when its completion has come, which is dropped. close() ends
    what is pending with ConnectionAbortedError, the end of its loop with CancelledError. The end of
    a producer's process ends the awaits of its lane with ConnectionResetError; submit() then raises
    it too until another has attached.
    """

    _alive = -1  # made by share()

    def __init__(self, *, lanes: int = 1, slots: int = 1024) -> None:
        if hasattr(self, "_memory"):
            raise RuntimeError("SharedHandle.__init__() was called before")
        slots = operator.index(slots)
        slots = 1 << (slots - 1).bit_length() if slots > 0 else slots
        size = _native._handle_memory_size(lanes, slots)
        memory = os.memfd_create("ringloop-handle", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(memory, size)
            # Whoever has it mapped need not fear that it shrinks.
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
            wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except BaseException:
            os.close(memory)
            raise
        self._open(memory, wake, lanes, slots)
        self._memory, self._wake = memory, wake

    def share(self) -> HandleDescriptors:
        """The descriptors for other processes. RuntimeError once it is closed; OSError where the
        kernel or the container refuses a pidfd."""
        if self.closed:
            raise RuntimeError("the shared handle is closed")
        if self._alive < 0:
            self._alive = os.pidfd_open(os.getpid())
        return HandleDescriptors(self._memory, self._wake, self._alive)

    @staticmethod
    def attach(descriptors: tuple[int, int, int], lane: int = 0) -> _native.HandleProducer:
        """The producer's side of a handle whose share() gave these descriptors; they are
        duplicated. One process a lane, and both in one pid namespace (else the loop's side calls
        watch()). OSError says why it cannot: closed or ended (BrokenPipeError), a lane that
        another process has, or had until a moment ago (EBUSY), no handle at all."""
        memory, wake, alive = descriptors
        own: list[int] = []
        try:
            for fd in (memory, wake, alive):
                own.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0))
        except BaseException:
            for fd in own:
                os.close(fd)
            raise
        return _native._handle_attach(own[0], own[1], own[2], lane)

    def close(self) -> None:
        """Ends what is pending (by the loop's next turn) and refuses producers. Idempotent."""
        super().close()
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    def __enter__(self) -> SharedHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"lanes={self.lanes} slots={self.slots}"
        return f"<ringloop.SharedHandle {state}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if not self.closed:
            _warn(f"unclosed {self!r}", ResourceWarning, source=self)
        self.close()
