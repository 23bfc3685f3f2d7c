"""The stall detector of EventLoop: says when the loop did not look at its I/O for too long, and
what it did meanwhile. Off unless asked for.

Thread: the loop's.
"""

from __future__ import annotations

import os
from asyncio import base_events
from typing import Any

_logger = base_events.logger  # type: ignore[attr-defined]

# As the native half has them.
_PARTS = (
    "native coroutines",
    "waiting for the GIL",
    "callbacks and tasks",
    "protocols and completions",
    "the loop itself",
)
_VARIABLE = "RINGLOOP_STALLS"


class StallMixin:
    """The part of EventLoop that tells of stalls."""

    _stall_limit_ns: int

    @property
    def stall_limit(self) -> float | None:
        """Seconds: a longer time between two looks at the loop's I/O is logged, as a warning that
        says what it went to. None, as at first: not measured, and costs nothing.

        What cannot be I/O's turn while a callback runs is here told for all of them together;
        debug mode's slow_callback_duration names single ones. ValueError unless it is a positive
        number or None.
        """
        return self._stall_limit_ns / 1e9 or None

    @stall_limit.setter
    def stall_limit(self, seconds: float | None) -> None:
        self._stall_limit_ns = 0 if seconds is None else _checked(seconds, "stall_limit")

    def _limit_stalls_as_wished(self) -> None:
        """By the environment variable RINGLOOP_STALLS."""
        if wish := os.environ.get(_VARIABLE):
            try:
                seconds = float(wish)
            except ValueError:
                raise ValueError(f"{_VARIABLE} is a number of seconds, not {wish!r}") from None
            self._stall_limit_ns = _checked(seconds, _VARIABLE)

    def _report_stall(self, *spent: float) -> None:
        total = sum(spent)
        shares = sorted(zip(spent, _PARTS, strict=True), reverse=True)
        told = [f"{part} {share * 1e3:.1f} ms" for share, part in shares if share >= total / 20]
        _logger.warning(
            "%r did not look at its I/O for %.1f ms: %s", self, total * 1e3, ", ".join(told)
        )


def _checked(seconds: Any, name: str) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e9:
        raise ValueError(f"{name} is a positive number of seconds, or None, not {seconds!r}")
    return max(round(seconds * 1e9), 1)
