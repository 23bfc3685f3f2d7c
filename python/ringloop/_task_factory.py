"""task_factory() and NativeTask: tasks with a number, and with the hooks of ringloop.hooks.

What runs per task is native (_native.TaskFactory). Thread: the loop's.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native

_T = TypeVar("_T")
_numbers = itertools.count(1)


class NativeTask(asyncio.Task[_T]):
    """A task of asyncio's with a number: node_id, of this process's NativeTasks its own.

    It is made by task_factory(), or by hand as asyncio.Task is.
    """

    _node_id = 0

    @property
    def node_id(self) -> int:
        """1 or more, never used twice; drawn when it is first asked for."""
        if self._node_id == 0:
            self._node_id = next(_numbers)
        return self._node_id

    def set_name(self, value: object) -> None:
        """The task's name, of str(value)."""
        if value is not None:  # asyncio's create_task() of 3.13.0 gives it, for no name
            super().set_name(value)


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
    return _native._task_factory(NativeTask, factory, eager)
