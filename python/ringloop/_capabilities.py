"""capabilities(): which kernel interface the loops of this process use, and why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from .loop import EventLoop


@dataclass(frozen=True)
class Capabilities:
    """What a loop's driver is. Sizes are entries, except buffer_size, which is bytes."""

    backend: str
    reason: str
    kernel: str
    submission_entries: int
    completion_entries: int
    buffer_count: int
    buffer_size: int
    missing_opcodes: tuple[str, ...]

    def __str__(self) -> str:
        missing = ", ".join(self.missing_opcodes) or "none"
        return "\n".join(
            (
                f"backend:         {self.backend} ({self.reason})",
                f"kernel:          {self.kernel}",
                f"ring:            {self.submission_entries} submissions, "
                f"{self.completion_entries} completions",
                f"receive buffers: {self.buffer_count} x {self.buffer_size} bytes",
                f"missing opcodes: {missing}",
            )
        )


def capabilities() -> Capabilities:
    """Of the running loop if it is ringloop's, else of a loop made for the question."""
    running = asyncio.events._get_running_loop()
    if isinstance(running, EventLoop):
        return _from(running._capabilities())
    loop = EventLoop()
    try:
        return _from(loop._capabilities())
    finally:
        loop.close()


def _from(what: dict[str, Any]) -> Capabilities:
    return Capabilities(**{**what, "missing_opcodes": tuple(what["missing_opcodes"])})
