"""task_factory(): tasks with a number (NativeTask), and with the hooks of ringloop.hooks.

What runs per task is native (_native.TaskFactory). Thread: the loop's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from . import _native


def task_factory(
    eager: bool = False, factory: Callable[..., asyncio.Future[Any]] | None = None
) -> Callable[..., Any]:
    """A task factory for loop.set_task_factory(), on any loop: its tasks are NativeTasks.

        loop.set_task_factory(ringloop.task_factory())

    On asyncio and uvloop it is what makes ringloop.hooks see a loop's tasks; ringloop's own loops
    need none for that. eager: tasks begin inside of create_task(), as with
    asyncio.eager_task_factory (RuntimeError before Python 3.12). factory: one that was set before,
    or asyncio.eager_task_factory; it makes the tasks, of its own type, and the hooks see them.
    ValueError for both: a factory has its own way. TypeError for what is no function.
    """
    if factory is not None and not callable(factory):
        raise TypeError(f"factory is a task factory, not {factory!r}")
    if factory is not None and eager:
        raise ValueError(
            "eager is for our own tasks: give factory=asyncio.eager_task_factory, or no factory"
        )
    if eager and sys.version_info < (3, 12):
        raise RuntimeError("eager tasks need Python 3.12")
    return _native._task_factory(factory, eager)
