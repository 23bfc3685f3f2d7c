"""ringloop: an asyncio event loop and awaitable native work on one io_uring ring."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._leak_report import report_if_wanted
from ._native import AffinityError, Awaitable, FdConflictError, HandleProducer, NativeTask
from .loop import EventLoop, new_event_loop
from .runner import run

if TYPE_CHECKING:
    from . import compat, fs, hooks, kernels, memory
    from ._batched import batched
    from ._capabilities import Capabilities, capabilities
    from ._coalesce import coalesce
    from ._graph import Graph, GraphError, GraphInput, GraphNode, GraphReport
    from ._handover import attach, detach, recv_handle, send_handle
    from ._leakcheck import LeakError, leakcheck
    from ._mixin import mixin
    from ._owned import OwnedFd
    from ._owners import fdinfo
    from ._print_tasks import print_tasks
    from ._stats import ExportStats, LoopStats, Stats, stats
    from ._task_factory import task_factory
    from .clock import VirtualClock
    from .files import open
    from .handle import SharedHandle
    from .policy import EventLoopPolicy, install

__version__ = "0.1.0"

__all__ = [
    "AffinityError",
    "Awaitable",
    "Capabilities",
    "EventLoop",
    "EventLoopPolicy",
    "ExportStats",
    "FdConflictError",
    "Graph",
    "GraphError",
    "GraphInput",
    "GraphNode",
    "GraphReport",
    "HandleProducer",
    "LeakError",
    "LoopStats",
    "NativeTask",
    "OwnedFd",
    "SharedHandle",
    "Stats",
    "VirtualClock",
    "attach",
    "batched",
    "capabilities",
    "coalesce",
    "compat",
    "detach",
    "fdinfo",
    "fs",
    "get_cmake_dir",
    "get_include",
    "hooks",
    "install",
    "leakcheck",
    "memory",
    "mixin",
    "new_event_loop",
    "open",
    "print_tasks",
    "recv_handle",
    "run",
    "send_handle",
    "stats",
    "task_factory",
]

report_if_wanted()


def get_include() -> str:
    """The folder of ringloop's headers for extension modules: <ringloop/python.hpp> for coroutines
    that Python awaits, <ringloop/capi.h> for modules in C that post to its loops, and
    <ringloop/handle.h> for code that completes a SharedHandle's awaits."""
    return _beside("include")


def get_cmake_dir() -> str:
    """The folder of ringloop's CMake package, for `find_package(ringloop COMPONENTS python)`."""
    return _beside("cmake")


def _beside(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


# What a program that only runs its loop on ringloop does not need is imported when it is asked for:
# it would be half of the start. kernels needs TBB and OpenBLAS and raises without them, so it is
# not in __all__; policies go away in CPython 3.16.
_SUBMODULES = ("compat", "fs", "hooks", "kernels", "memory")
_LAZY = {
    "Capabilities": "_capabilities",
    "EventLoopPolicy": "policy",
    "ExportStats": "_stats",
    "Graph": "_graph",
    "GraphError": "_graph",
    "GraphInput": "_graph",
    "GraphNode": "_graph",
    "GraphReport": "_graph",
    "LeakError": "_leakcheck",
    "LoopStats": "_stats",
    "OwnedFd": "_owned",
    "SharedHandle": "handle",
    "Stats": "_stats",
    "VirtualClock": "clock",
    "attach": "_handover",
    "batched": "_batched",
    "capabilities": "_capabilities",
    "coalesce": "_coalesce",
    "detach": "_handover",
    "fdinfo": "_owners",
    "install": "policy",
    "leakcheck": "_leakcheck",
    "mixin": "_mixin",
    "open": "files",
    "print_tasks": "_print_tasks",
    "recv_handle": "_handover",
    "send_handle": "_handover",
    "stats": "_stats",
    "task_factory": "_task_factory",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
