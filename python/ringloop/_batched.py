"""batched(): many small calls become one.

Owns nothing: the wrapper may be called on any thread that its function may be called on. Nothing
here waits; an awaitable that the function returns is awaited by who awaits the wrapper's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from typing import Any

_no_results = (str, Mapping, Set)  # have a length, and no results in the items' order


def batched(fn: Callable[..., Any], axis: int | None = 0) -> Callable[..., Any]:
    """A function of many items at once, over a function of a batch or of one item.

        many = ringloop.batched(fn)
        results = many(items)            # fn is called once; results[i] belongs to items[i]
        results = await many(items)      # where fn is async, or returns an awaitable

    axis: where the items lie in the batch that fn takes, and in what it returns. A list of numpy
    arrays of one shape becomes one contiguous array with that axis added; in its result the axis
    is moved to the front. An array is handed on as it is, with its items along that axis, and so
    is the result. Other items reach fn as one list (axis 0 only). Any iterable of items does; an
    empty one is handed on, too. Further arguments go to fn unchanged.

    None: fn takes one item and returns at once; it is called for each. That is one crossing where
    the whole is what crosses, as in `await asyncio.to_thread(many, items)`.

    The results are what fn returned, a list or an array, and nothing of them is copied. TypeError
    if there are no items, or nothing that has results; ValueError if there are not as many results
    as items, or if the arrays' shapes differ. What fn raises goes through; cancelling an await of
    it is fn's own affair.
    """
    if not callable(fn):
        raise TypeError(f"batched() takes a function, not {fn!r}")
    if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
        raise TypeError(f"axis is a number, or None for a function of one item, not {axis!r}")
    name = getattr(fn, "__qualname__", None) or repr(fn)

    @functools.wraps(fn, updated=())
    def each(items: Iterable[Any], /, *rest: Any, **named: Any) -> Any:
        return [_at_once(fn(item, *rest, **named), name) for item in _iterator(items, name)]

    @functools.wraps(fn, updated=())
    def many(items: Iterable[Any], /, *rest: Any, **named: Any) -> Any:
        whole = _is_array(items)
        batch = items if whole else _join(list(_iterator(items, name)), axis or 0, name)
        count = _count(batch, axis or 0, name, "items")
        results = fn(batch, *rest, **named)
        if hasattr(results, "__await__"):
            return _matched_later(results, count, whole, axis or 0, name)
        return _matched(results, count, whole, axis or 0, name)

    return each if axis is None else many


def _is_array(batch: object) -> bool:
    return hasattr(batch, "shape") and hasattr(batch, "ndim")


def _iterator(items: Any, name: str) -> Any:
    try:
        return iter(items)
    except TypeError:
        raise TypeError(
            f"{name}, batched, takes a sequence or array of items, not {items!r}"
        ) from None


def _at_once(result: Any, name: str) -> Any:
    if not hasattr(result, "__await__"):
        return result
    if hasattr(result, "close"):
        result.close()  # else it would warn that nobody awaited it
    raise TypeError(
        f"{name} returns an awaitable, which axis=None is not for: start them with "
        "asyncio.TaskGroup, or join them with ringloop.coalesce()"
    )


def _join(items: list[Any], axis: int, name: str) -> Any:
    numpy: Any = sys.modules.get("numpy")  # nobody has an array of it otherwise
    if numpy is not None and items and isinstance(items[0], numpy.ndarray):
        try:
            batch = numpy.array(items)
        except ValueError as error:
            shapes = sorted({numpy.shape(item) for item in items})
            raise ValueError(
                f"{name}, batched: items of one shape are needed, not {shapes}"
            ) from error
        if axis not in range(-batch.ndim, batch.ndim):
            raise ValueError(f"{name}, batched: a batch of {batch.ndim} axes has no axis {axis}")
        return numpy.ascontiguousarray(numpy.moveaxis(batch, 0, axis)) if axis else batch
    if axis != 0 and items:
        raise TypeError(
            f"{name}, batched: axis={axis} needs numpy arrays as items, not {type(items[0])!r}"
        )
    return items


def _count(batch: Any, axis: int, name: str, what: str) -> int:
    if _is_array(batch):
        if axis not in range(-batch.ndim, batch.ndim):
            raise ValueError(
                f"{name}, batched: an array of shape {tuple(batch.shape)} has no axis {axis} "
                f"with {what}"
            )
        return int(batch.shape[axis])
    if isinstance(batch, _no_results) or not hasattr(batch, "__getitem__"):
        raise TypeError(f"{name}, batched, must give a sequence or array of {what}, not {batch!r}")
    return len(batch)


def _matched(results: Any, count: int, whole: bool, axis: int, name: str) -> Any:
    got = _count(results, axis, name, "results")
    if got != count:
        raise ValueError(f"{name}, batched: {count} items gave {got} results")
    if axis == 0 or whole or not _is_array(results):
        return results
    return sys.modules["numpy"].moveaxis(results, axis, 0)


async def _matched_later(
    results: Awaitable[Any], count: int, whole: bool, axis: int, name: str
) -> Any:
    return _matched(await results, count, whole, axis, name)
