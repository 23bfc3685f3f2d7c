"""coalesce(): awaits of single items that are pending together become one call of a list.

A batch belongs to one loop and its thread; it is found through the thread, so one coalesced
function serves several loops in several threads at once. Nothing here blocks. The loop's handle and
the callers own the batch: with them it goes, also where a loop is dropped unclosed.
"""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence, Set
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def coalesce(
    fn: Callable[[list[_T]], Awaitable[Sequence[_R]]],
    window_us: float | None = None,
    max: int | None = None,
) -> Callable[[_T], Coroutine[Any, Any, _R]]:
    """An async function of one item, over an async function of a list of items.

        get = ringloop.coalesce(get_many)      # async def get_many(keys: list) -> list
        user, shop = await asyncio.gather(get(1), get(2))      # one get_many([1, 2])

    Calls that wait together are joined: those of the current turn of the loop, or with window_us
    those of that many microseconds from the first one on (uvloop rounds them to milliseconds). With
    max, a batch begins as soon as it has so many items. Items keep the order of their calls. Any
    number of batches may run at once; each runs in the context of its first caller, on the loop of
    its callers: loops and threads never share one.

    fn returns as many results as it got items. A result that is an exception is raised to its own
    caller; what fn raises is raised to all of the batch. ValueError to all if the number is wrong,
    TypeError if fn is not async or returns no sequence.

    A caller that is cancelled leaves: before the call its item goes with it, later its result is
    dropped. When all have left, the call is not made or is cancelled.
    """
    if not callable(fn):
        raise TypeError(f"coalesce() takes an async function of a list, not {fn!r}")
    if window_us is not None and not (
        isinstance(window_us, (int, float)) and 0 <= window_us < math.inf
    ):
        raise ValueError(f"window_us is a number of microseconds, not {window_us!r}")
    if max is not None and (not isinstance(max, int) or max < 1):
        raise ValueError(f"max is a number of items, 1 or more, not {max!r}")
    window_s = None if window_us is None else window_us / 1e6
    here = _Here()

    @functools.wraps(fn, updated=())
    async def one(item: _T) -> _R:
        loop = asyncio.get_running_loop()
        batch: _Batch[_T, _R] | None = here.batch()
        if batch is None or not batch.is_open or batch.loop is not loop:
            batch = _Batch(fn, loop, window_s)
            here.batch = weakref.ref(batch)
        future = batch.join(item, max)
        try:
            return await future
        finally:
            # Under a closed loop the collector ends this frame, and cancel() would raise.
            if not loop.is_closed() and (future.cancelled() or not future.done()):
                future.cancel()
                batch.leave()
            del future  # its exception's traceback holds this frame

    return one


class _Here(threading.local):
    """The batch that this thread's callers join."""

    batch: Callable[[], Any] = staticmethod(lambda: None)


class _Batch(Generic[_T, _R]):
    """The items of one call, until it has ended."""

    def __init__(
        self,
        fn: Callable[[list[_T]], Awaitable[Sequence[_R]]],
        loop: asyncio.AbstractEventLoop,
        window_s: float | None,
    ) -> None:
        self.loop = loop
        self.is_open = True
        self._fn = fn
        self._waiting: list[tuple[_T, asyncio.Future[_R]]] = []
        self._present = 0  # callers that have neither left nor got their result
        self._task: asyncio.Task[None] | None = None
        self._handle: asyncio.Handle = (
            loop.call_soon(self._begin)
            if window_s is None
            else loop.call_later(window_s, self._begin)
        )

    def join(self, item: _T, most: int | None) -> asyncio.Future[_R]:
        future: asyncio.Future[_R] = self.loop.create_future()
        self._waiting.append((item, future))
        self._present += 1
        if self._present == most:
            self.is_open = False
            if self._task is None:
                self._handle.cancel()
                self._begin()
        return future

    def leave(self) -> None:
        self._present -= 1
        if self._present > 0:
            return
        self.is_open = False
        self._handle.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        # Open until the task's first step: what comes before may still join.
        self._task = self.loop.create_task(self._call())
        self._task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        for _item, future in self._waiting:  # somebody cancelled the task before its first step
            future.cancel()

    async def _call(self) -> None:
        self.is_open = False
        live = [pair for pair in self._waiting if not pair[1].done()]
        self._waiting.clear()
        if not live:
            return
        try:
            call = self._fn([item for item, _ in live])
            if not hasattr(call, "__await__"):
                raise TypeError(f"{self._name()}, coalesced, must be async, but returned {call!r}")
            results = await call
            self._check(results, len(live))
        except asyncio.CancelledError:
            for _, future in live:
                future.cancel()
            raise
        except BaseException as error:
            self._fail(live, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), result in zip(live, results):
                if not future.done():
                    _give(future, result)
        finally:
            live.clear()  # an error's traceback holds this frame

    def _check(self, results: Any, count: int) -> None:
        if isinstance(results, (str, Mapping, Set)) or not hasattr(results, "__getitem__"):
            raise TypeError(
                f"{self._name()}, coalesced, must return a sequence of results in the order of the "
                f"items, not {results!r}"
            )
        if len(results) != count:
            raise ValueError(
                f"{self._name()}, coalesced, returned {len(results)} results for {count} items"
            )

    def _fail(self, live: list[tuple[_T, asyncio.Future[_R]]], error: BaseException) -> None:
        heard = False
        for _, future in live:
            if not future.done():
                heard = True
                _give(future, error)
        if not heard:
            self.loop.call_exception_handler(
                {
                    "message": f"{self._name()}, coalesced, failed after all callers had left",
                    "exception": error,
                }
            )

    def _name(self) -> str:
        return getattr(self._fn, "__qualname__", None) or repr(self._fn)


def _give(future: asyncio.Future[Any], result: object) -> None:
    if isinstance(result, asyncio.CancelledError):
        future.cancel(*result.args)
    elif isinstance(result, StopIteration):  # which no future takes
        error = RuntimeError("a coalesced call gave StopIteration as a result")
        error.__cause__ = result
        future.set_exception(error)
    elif isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
