"""Functions that are called around the steps of tasks: ringloop.hooks.add(before_run=…).

They see the tasks that are made while a hook is set: on ringloop's loops all of them, on asyncio's
and uvloop's those of a loop with ringloop.task_factory(). Without hooks nothing is called and no
task is changed. A hook is a Python callable, or a C function (<ringloop/hooks.h>), which is called
without a Python object being made for it. Registrations belong to the process, add() and remove()
to any thread; hooks are called on the task's loop's thread, in the task's context.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import _native

__all__ = ["Registration", "add"]

# A result passes through a future or two, each a turn, before the next step.
_QUIET_TURNS = 3
_lock = threading.Lock()
_registrations: list[Registration] = []


class Registration:
    """What add() gives: remove() ends it, as does leaving it by `with`."""

    def __init__(self, hooks: dict[str, object]) -> None:
        self._hooks = hooks

    def remove(self) -> None:
        """The hooks are not called any more, by tasks that are under way either. Once is enough."""
        with _lock:
            if self in _registrations:
                _registrations.remove(self)
                _install()

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def add(
    *,
    before_run: Callable[[asyncio.Task[Any]], object] | None = None,
    after_run: Callable[[asyncio.Task[Any]], object] | None = None,
    on_ready: Callable[[asyncio.Task[Any]], object] | None = None,
    on_idle: Callable[[asyncio.AbstractEventLoop], object] | None = None,
    on_slow: Callable[[asyncio.Task[Any], float], object] | None = None,
) -> Registration:
    """Calls functions around each step of a task, until the registration is removed.

    Around one step, in this order; functions of one kind in the order in which they were added:

    - on_ready(task): the task may go on: it was made, or what it waits for is done.
    - before_run(task): its coroutine is about to run.
    - after_run(task): it has stopped, at an await or for good.
    - on_slow(task, seconds): after a step of loop.slow_callback_duration or longer.

    on_idle(loop) is called once when three turns of the loop have passed without such a step: there
    is nothing to do but to wait.

    They are plain functions and should be quick. What one raises goes to the loop's exception
    handler, with the hook's kind and function, and changes nothing for the step; KeyboardInterrupt
    and SystemExit end it as if its coroutine had raised them.

    In C they are one type, void (*)(PyObject* subject, double seconds, void* context): given as a
    capsule of ringloop_hook_new(), or as a ctypes function with restype None and argtypes
    (c_void_p, c_double, c_void_p), whose context is null. They are called with the GIL held.
    <ringloop/hooks.h> says more.

    TypeError for what is no plain function, for a capsule of another name, for a ctypes function of
    another type, and where none is given; ValueError for a null pointer.
    """
    given = {
        "before_run": before_run,
        "after_run": after_run,
        "on_ready": on_ready,
        "on_idle": on_idle,
        "on_slow": on_slow,
    }
    hooks = {kind: _checked(kind, hook) for kind, hook in given.items() if hook is not None}
    if not hooks:
        raise TypeError(f"hooks.add() takes at least one of {', '.join(given)}")
    registration = Registration(hooks)
    with _lock:
        _registrations.append(registration)
        _install()
    return registration


def _checked(kind: str, hook: object) -> object:
    """What the native half takes: a callable, a capsule, or (address, ctypes function)."""
    ctypes: Any = sys.modules.get("ctypes")  # not imported: then nobody has a function of it
    if ctypes is not None and isinstance(hook, ctypes._CFuncPtr):
        return _from_ctypes(kind, hook, ctypes)
    if _native._check_hook_capsule(kind, hook):
        return hook
    if not callable(hook) or inspect.iscoroutinefunction(hook):
        raise TypeError(f"{kind} is a plain function, not {hook!r}")
    return hook


def _from_ctypes(kind: str, hook: Any, ctypes: Any) -> tuple[int, object]:
    subjects = (ctypes.c_void_p, ctypes.py_object)
    declared = tuple(hook.argtypes or ())
    if (
        hook.restype is not None
        or declared[1:] != (ctypes.c_double, ctypes.c_void_p)
        or declared[0] not in subjects
    ):
        raise TypeError(
            f"{kind} is a ctypes function of another type: set its restype to None and its "
            "argtypes to (c_void_p, c_double, c_void_p), the type ringloop_hook of "
            "<ringloop/hooks.h>"
        )
    address = ctypes.cast(hook, ctypes.c_void_p).value
    if not address:
        raise ValueError(f"{kind} is a ctypes function at the null pointer")
    return address, hook


def _of(kind: str) -> tuple[object, ...]:
    return tuple(each._hooks[kind] for each in _registrations if kind in each._hooks)


def _install() -> None:
    after_run = _of("after_run") + ((_watch_for_idle,) if _of("on_idle") else ())
    _native._set_step_hooks(
        _of("on_ready"), _of("before_run"), after_run, _of("on_slow"), _report_step
    )


def _report_step(
    kind: str, function: object, error: BaseException, task: asyncio.Task[Any]
) -> None:
    _report(kind, function, error, task.get_loop())


def _report(
    kind: str, function: object, error: BaseException, loop: asyncio.AbstractEventLoop
) -> None:
    # Without "task": the handler would be run in its context, which is in use here.
    loop.call_exception_handler(
        {"message": f"ringloop.hooks: {kind} hook {function!r} failed", "exception": error}
    )


class _Idle:
    """Of one loop: whether steps still come. It looks once a turn, from a step on until idle."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._stepped = self._looks = False
        self._quiet_turns = 0

    def step(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stepped = True
        if not self._looks:
            self._looks = True
            loop.call_soon(self._look)

    def _look(self) -> None:
        loop = self._loop()
        if loop is None:
            return
        self._quiet_turns = 0 if self._stepped else self._quiet_turns + 1
        self._stepped = False
        if self._quiet_turns < _QUIET_TURNS:
            loop.call_soon(self._look)  # comes after all that is ready now
            return
        self._looks = False
        for hook in _of("on_idle"):
            try:
                _native._call_hook(hook, loop)
            except Exception as error:
                shown = hook[1] if isinstance(hook, tuple) else hook
                _report("on_idle", shown, error, loop)


_idle: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Idle] = weakref.WeakKeyDictionary()


def _watch_for_idle(task: asyncio.Task[Any]) -> None:
    loop = task.get_loop()
    state = _idle.get(loop)
    if state is None:
        state = _idle[loop] = _Idle(loop)
    state.step(loop)
