"""The parent's loop in a forked child: how a program ends that forked inside a run.

The child may do nothing with that loop but end: sys.exit(), an exception or the end of the main
coroutine leave run_until_complete() as in any process (loop_run.cpp has the callbacks that this
takes). Then asyncio.Runner cleans up a loop whose tasks, generators and threads are all its
parent's: here it finds nothing to do.

Thread: the one that forked, the only one of the child.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events, events, tasks
from typing import Any

_base: Any = base_events.BaseEventLoop
_tasks: Any = tasks


class ForkMixin:
    """The part of EventLoop that a forked child sees of its parent's."""

    def run_until_complete(self: Any, future: Any) -> Any:
        """Runs until the future is done; its result. A coroutine becomes a task first."""
        if self._is_parents and _cleans_up(self, future):
            future.close()
            return None
        return _base.run_until_complete(self, future)

    def _step_in_child(self: Any) -> None:
        """Before what has ended since the fork is heard of. From 3.14.1 on a fork takes the running
        loop from the thread (gh-139894), and a task steps under its running loop only."""
        events._set_running_loop(self)

    def _is_of_fork(self: Any, error: BaseException) -> bool:
        """Whether it says no more than that the task that forked has lost its running loop. Raises
        what came out of that task."""
        if type(error) is not RuntimeError or not str(error).endswith("is not the running loop"):
            return False
        if isinstance(error.__context__, (SystemExit, KeyboardInterrupt)):
            raise error.__context__
        return True

    def _leave_to_parent(self: Any) -> None:
        """The parent's tasks are not this process's to cancel, or to complain about."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _tasks._unregister_task(task)


def _cleans_up(loop: Any, awaited: Any) -> bool:
    code = getattr(awaited, "cr_code", None)
    kind = type(loop)
    return code is not None and any(
        code is getattr(method, "__code__", None)
        for method in (kind.shutdown_asyncgens, kind.shutdown_default_executor)
    )
