"""print_tasks(): what each task of a loop stands at, down to the native work that it waits for.

Nothing is kept or changed: it looks at coroutines and futures through what CPython shows of them.
Thread: the loop's. From another one it works too, and may show a task between two of its lines.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from ._native import Awaitable

# How each kind of coroutine names its frame and what it waits for.
_KINDS = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
# Iterators of CPython's between a coroutine and what it awaits; only the collector sees into them.
_OPAQUE = (
    "coroutine_wrapper",
    "async_generator_asend",
    "async_generator_athrow",
    "anext_awaitable",
)


def print_tasks(
    loop: asyncio.AbstractEventLoop | None = None, *, file: TextIO | None = None
) -> None:
    """Prints the tasks of a loop that are not done, each with the chain of its awaits.

        Task-7 handler() waits
            handler() at app.py:31
            load() at app.py:12
            <ringloop.Awaitable read pending>

    loop: the running one if none is given (RuntimeError where none runs); asyncio's, uvloop's or
    ringloop's. file: sys.stdout if none is given. A chain ends at a native awaitable, whose repr
    names its work, at another task, at the parts of a gather(), or at a future. Oldest tasks first,
    as far as their names tell.
    """
    if loop is None:
        loop = asyncio.events._get_running_loop()
        if loop is None:
            raise RuntimeError("no event loop runs in this thread: print_tasks(loop) takes one")
    elif not isinstance(loop, asyncio.AbstractEventLoop):
        raise TypeError(f"print_tasks() takes an event loop, not {loop!r}")
    current = asyncio.current_task(loop)
    tasks = sorted(asyncio.all_tasks(loop), key=_by_name)
    lines = [f"{len(tasks)} task{'s' * (len(tasks) != 1)} of {loop!r}"]
    for task in tasks:
        waiter = getattr(task, "_fut_waiter", None)
        state = "runs" if task is current else "is ready" if waiter is None else "waits"
        lines.append(f"{_title(task)} {state}")
        lines += [f"    {line}" for line in _chain(task.get_coro(), waiter)]
    (file or sys.stdout).write("\n".join(lines) + "\n")


def _by_name(task: asyncio.Task[Any]) -> tuple[int, str]:
    return len(task.get_name()), task.get_name()  # Task-10 after Task-9


def _title(task: asyncio.Task[Any]) -> str:
    coro = task.get_coro()
    return f"{task.get_name()} {getattr(coro, '__qualname__', type(coro).__qualname__)}()"


def _chain(step: Any, waiter: Any) -> Iterator[str]:
    while step is not None and not isinstance(step, Awaitable):
        for frame_name, await_name in _KINDS:
            if hasattr(step, await_name):
                yield _place(step, getattr(step, frame_name))
                step = getattr(step, await_name)
                break
        else:
            step = _behind(step)
    if isinstance(step, Awaitable):
        yield repr(step)
    if waiter is not None and waiter is not step:
        yield _future(waiter)


def _place(step: Any, frame: Any) -> str:
    name = getattr(step, "__qualname__", type(step).__qualname__)
    return f"{name}() at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else f"{name}()"


def _behind(step: Any) -> Any:
    """The coroutine, generator or awaitable that an opaque iterator drives; None for others."""
    if type(step).__name__ not in _OPAQUE:
        return None
    for each in gc.get_referents(step):
        if isinstance(each, Awaitable) or inspect.isasyncgen(each) or inspect.iscoroutine(each):
            return each
        if type(each).__name__ in _OPAQUE or inspect.isgenerator(each):
            return each
    return None


def _future(waiter: Any) -> str:
    if isinstance(waiter, asyncio.Task):
        return f"waits for {_title(waiter)}"
    children = getattr(waiter, "_children", None)  # of a gather()
    if not children:
        return repr(waiter)
    pending = [each for each in children if not each.done()]
    names = [_title(each) if isinstance(each, asyncio.Task) else repr(each) for each in pending]
    return f"gathers {len(children)}, waits for {', '.join(names)}"
