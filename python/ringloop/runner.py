"""run(): asyncio.run() on ringloop, the same on every Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .loop import new_event_loop

_T = TypeVar("_T")


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Runs the coroutine on a new loop and closes it; arguments and errors as asyncio.run()."""
    if asyncio.events._get_running_loop() is not None:
        if asyncio.iscoroutine(main):
            main.close()  # else it would warn that nobody awaited it
        raise RuntimeError("ringloop.run() cannot be called from a running event loop")
    with asyncio.Runner(debug=debug, loop_factory=loop_factory or new_event_loop) as runner:
        return runner.run(main)
