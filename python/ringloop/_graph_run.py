"""One run of a Graph: begins what the core says may begin, and tells it how each node ended.

Owns what runs: tasks, awaitables, calls on workers. Thread: the loop's. Nothing of it is left when
drive() has returned or raised.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from ._graph import GraphNode

PLACES = ("python", "native", "pool")
_DONE, _FAILED, _CANCELLED = range(3)
_HOLD_NS = 1_000_000  # plain functions in a row hold the loop up for no longer than one, or this


class Run:
    def __init__(self, core: _native.GraphCore, nodes: list[GraphNode[Any]]) -> None:
        self._core = core
        self._nodes = nodes
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._live: dict[int, Any] = {}  # futures of nodes that run, by number
        self._left = False

    async def drive(self) -> None:
        """Until every node has ended."""
        self._advance()
        was_cancelled = False
        while not self._over.done():
            try:
                await asyncio.wait([self._over])  # which leaves the future as it is on a cancel
            except asyncio.CancelledError:
                was_cancelled = True
                self._stop()
        if was_cancelled:
            raise asyncio.CancelledError

    def leave(self) -> None:
        """Ends what was left running: its task was dropped, or its loop is closed."""
        self._left = True
        if not self._loop.is_closed():
            for future in self._live.values():
                future.cancel()
        self._live.clear()

    def cancel(self, node: GraphNode[Any]) -> bool:
        future = self._live.get(node._number)
        if future is not None:
            return bool(future.cancel())
        if not self._core.cancel(node._number):
            return False
        node._value = node._error = None  # of an earlier run
        self._tell_if_over()
        return True

    def _stop(self) -> None:
        self._core.stop()
        for future in list(self._live.values()):
            future.cancel()
        self._tell_if_over()

    def _tell_if_over(self) -> None:
        if self._core.is_over and not self._over.done():
            self._over.set_result(None)

    def _advance(self) -> None:
        if self._left:
            return
        begun_ns = now_ns = perf_counter_ns()
        while (number := self._core.take(now_ns)) >= 0:
            self._begin(self._nodes[number])
            now_ns = perf_counter_ns()
            if now_ns - begun_ns > _HOLD_NS:
                self._loop.call_soon(self._advance)
                return
        self._tell_if_over()

    def _begin(self, node: GraphNode[Any]) -> None:
        node._value = node._error = None
        own = self._context.copy()  # what a node sets is seen by nobody else
        try:
            future = self._made(node, own, [each._value for each in node._needs])
            if future is None:
                self._core.ended(node._number, _DONE, perf_counter_ns())
                return
            self._live[node._number] = future
            ended = functools.partial(self._ended, node)
            if type(future) is _native.Awaitable:  # which begins with that
                own.run(future.add_done_callback, ended, context=self._context)
            else:
                future.add_done_callback(ended, context=self._context)
        except BaseException as error:
            self._fail(node, error)
            if isinstance(error, (Exception, asyncio.CancelledError)):
                return
            self._loop.call_soon(self._advance)  # KeyboardInterrupt and the like end the loop's run
            raise

    def _made(self, node: GraphNode[Any], own: contextvars.Context, values: list[Any]) -> Any:
        """A future for the node's value, or None: it has its value."""
        where = node._where
        if where == "pool":
            return _native._offload(own.run, node._fn, *values)
        if not isinstance(where, str):
            return self._loop.run_in_executor(where, node._fn, *values)
        made = own.run(node._fn, *values)
        if type(made) is _native.Awaitable:
            if not made.done():
                return made
            node._value = made.result()
            return None
        if where == "native":
            raise TypeError(
                f"node {node.name!r} is native, but {node._fn!r} returned {made!r}, which is no "
                'ringloop.Awaitable: where="python" takes everything'
            )
        if type(made) is CoroutineType or asyncio.iscoroutine(made):
            return self._loop.create_task(made, name=node.name, context=own)
        if hasattr(made, "__await__"):
            return own.run(asyncio.ensure_future, made)
        node._value = made
        return None

    def _ended(self, node: GraphNode[Any], future: asyncio.Future[Any]) -> None:
        if self._left:
            if not future.cancelled():
                future.exception()  # nobody will ask for it
            return
        del self._live[node._number]
        if future.cancelled():
            self._fail(node, asyncio.CancelledError())
        elif (error := future.exception()) is not None:
            self._fail(node, error)
        else:
            node._value = future.result()
            self._core.ended(node._number, _DONE, perf_counter_ns())
        self._advance()

    def _fail(self, node: GraphNode[Any], error: BaseException) -> None:
        self._live.pop(node._number, None)
        node._error = error
        how = _CANCELLED if isinstance(error, asyncio.CancelledError) else _FAILED
        self._core.ended(node._number, how, perf_counter_ns())
