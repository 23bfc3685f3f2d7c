"""ringloop: an asyncio event loop and awaitable native work on one io_uring ring."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import compat, fs, hooks, memory
from ._batched import batched
from ._capabilities import Capabilities, capabilities
from ._coalesce import coalesce
from ._handover import attach, detach, recv_handle, send_handle
from ._leak_report import report_if_wanted
from ._leakcheck import LeakError, leakcheck
from ._mixin import mixin
from ._native import AffinityError, Awaitable, FdConflictError, HandleProducer, NativeTask
from ._owned import OwnedFd
from ._owners import fdinfo
from ._print_tasks import print_tasks
from ._stats import ExportStats, LoopStats, Stats, stats
from ._task_factory import task_factory
from .clock import VirtualClock
from .files import open
from .handle import SharedHandle
from .loop import EventLoop, new_event_loop
from .runner import run

if TYPE_CHECKING:
    from . import kernels
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
    return str(Path(__file__).parent / "include")


def get_cmake_dir() -> str:
    """The folder of ringloop's CMake package, for `find_package(ringloop COMPONENTS python)`."""
    return str(Path(__file__).parent / "cmake")


_LAZY = {"EventLoopPolicy": "policy", "install": "policy"}


def __getattr__(name: str) -> Any:
    # kernels needs TBB and OpenBLAS; policies go away in CPython 3.16: both only on demand. Without
    # those libraries this raises, so kernels is not in __all__.
    if name == "kernels":
        return importlib.import_module(".kernels", __name__)
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
