"""EventLoopPolicy and install(), where asyncio still has policies (CPython 3.15 and older)."""

from __future__ import annotations

import asyncio
import warnings
from asyncio import unix_events
from typing import Any

from .loop import EventLoop, new_event_loop

_Base: Any = getattr(unix_events, "_DefaultEventLoopPolicy", None) or getattr(
    unix_events, "_UnixDefaultEventLoopPolicy", None
)
if _Base is None:
    raise ImportError(
        "this Python has no event loop policies any more: "
        "use ringloop.run() or asyncio.run(…, loop_factory=ringloop.new_event_loop)"
    )


class EventLoopPolicy(_Base):  # type: ignore[misc]
    """The default policy, with ringloop's loops."""

    def _loop_factory(self) -> EventLoop:
        return new_event_loop()


def install() -> None:
    """Makes ringloop the loop of asyncio.run() and asyncio.new_event_loop() in this process."""
    with warnings.catch_warnings():
        # 3.14 deprecates the call itself; our documentation tells whoever calls install().
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(EventLoopPolicy())
