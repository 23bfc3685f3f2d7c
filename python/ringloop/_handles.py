"""Cold parts of the native handles: how they look in logs, where they were made (debug mode)."""

from __future__ import annotations

import asyncio
import sys
from asyncio import format_helpers
from traceback import StackSummary
from typing import Any


def describe(handle: Any) -> str:
    """The repr of a handle, as asyncio writes it."""
    timer = isinstance(handle, asyncio.TimerHandle)
    words = [handle.__class__.__name__]
    if handle._cancelled:
        words.append("cancelled")
    if timer:
        words.append(f"when={handle._when}")
    if handle._callback is not None:
        words.append(_callback_source(handle))
    if handle._source_traceback:
        frame = handle._source_traceback[-1]
        words.append(f"created at {frame[0]}:{frame[1]}")
    return f"<{' '.join(words)}>"


def _callback_source(handle: Any) -> str:
    source: Any = format_helpers._format_callback_source
    if "debug" in (source.__kwdefaults__ or {}):
        debug = handle._loop is not None and handle._loop.get_debug()
        return str(source(handle._callback, handle._args, debug=debug))
    return str(source(handle._callback, handle._args))


def report(handle: Any, exception: BaseException) -> dict[str, Any]:
    """The context that call_exception_handler() gets for a callback that raised."""
    context: dict[str, Any] = {
        "message": f"Exception in callback {_callback_source(handle)}",
        "exception": exception,
        "handle": handle,
    }
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    return context


def source_traceback() -> StackSummary:
    """The stack of the caller that schedules a callback."""
    return format_helpers.extract_stack(sys._getframe(1))
