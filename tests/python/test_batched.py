"""ringloop.batched: one call for many items, and what it refuses."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
import ringloop
from harness.loops import Run
from ringloop import kernels

numpy = pytest.importorskip("numpy")


def counted(fn: Any) -> tuple[Any, list[Any]]:
    calls: list[Any] = []

    def recorded(batch: Any, *rest: Any, **named: Any) -> Any:
        calls.append(batch)
        return fn(batch, *rest, **named)

    return recorded, calls


def test_many_items_are_one_call() -> None:
    fn, calls = counted(lambda batch: [2 * item for item in batch])
    many = ringloop.batched(fn)
    assert many(range(1000)) == list(range(0, 2000, 2))
    assert many(str(number) for number in (1, 2)) == ["11", "22"]
    assert calls == [list(range(1000)), ["1", "2"]]


def test_an_empty_batch_is_a_call_too() -> None:
    fn, calls = counted(lambda batch: [])
    assert ringloop.batched(fn)([]) == [] and calls == [[]]


def test_further_arguments_go_to_the_function_unchanged() -> None:
    fn, _ = counted(lambda batch, add, *, times: [(item + add) * times for item in batch])
    assert ringloop.batched(fn)([1, 2], 10, times=3) == [33, 36]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_small_arrays_become_one_along_the_axis(axis: int) -> None:
    items = [numpy.full((2, 3), value) for value in range(5)]
    fn, calls = counted(lambda batch: batch + 1)
    results = ringloop.batched(fn, axis)(items)
    assert calls[0].shape[axis] == 5 and calls[0].flags.c_contiguous
    assert (calls[0] == numpy.stack(items, axis)).all()
    assert len(results) == 5
    assert all((got == item + 1).all() for got, item in zip(results, items))


def test_an_array_goes_in_and_comes_out_as_it_is() -> None:
    fn, calls = counted(lambda batch: batch.sum(axis=0, keepdims=True))
    given = numpy.arange(6).reshape(2, 3)
    result = ringloop.batched(fn, axis=1)(given)
    assert calls[0] is given and result.tolist() == [[3, 5, 7]]


def test_a_function_of_one_item_is_called_for_each() -> None:
    many = ringloop.batched(divmod, axis=None)
    assert many([7, 9], 4) == [(1, 3), (2, 1)]


def test_a_batch_crosses_to_a_worker_once(on_host: Run) -> None:
    def process(item: int) -> tuple[int, int]:
        return 2 * item, threading.get_ident()

    async def main() -> None:
        many = ringloop.batched(process, axis=None)
        results = await asyncio.to_thread(many, range(100))
        assert [value for value, _ in results] == list(range(0, 200, 2))
        assert len({thread for _, thread in results} - {threading.get_ident()}) == 1

    on_host(main())


def test_an_async_function_is_awaited(on_host: Run) -> None:
    async def fn(batch: Any) -> Any:
        await asyncio.sleep(0)
        return batch * 2

    async def main() -> None:
        many = ringloop.batched(fn)
        assert (await many(numpy.arange(3))).tolist() == [0, 2, 4]
        assert [got.tolist() for got in await many([numpy.ones(1)] * 2)] == [[2.0], [2.0]]
        with pytest.raises(ValueError, match=r"fn, batched: 2 items gave 4 results"):
            await many([1, 2])

    on_host(main())


def test_a_kernel_takes_many_matrices_as_one(on_host: Run) -> None:
    async def main() -> None:
        right = numpy.eye(4, dtype=numpy.float32)
        rows = [numpy.full(4, row, dtype=numpy.float32) for row in range(10)]
        many = ringloop.batched(kernels.matmul)
        assert [got[0] for got in await many(rows, right)] == list(range(10))

    on_host(main())


def test_it_looks_like_its_function() -> None:
    def scaled(batch: list[float]) -> list[float]:
        """Scales."""
        return batch

    many = ringloop.batched(scaled)
    assert many.__name__ == "scaled" and many.__doc__ == "Scales."
    assert inspect.signature(many) == inspect.signature(scaled)


def test_what_the_function_raises_goes_through() -> None:
    def broken(batch: Any) -> Any:
        raise KeyError(batch[0])

    with pytest.raises(KeyError, match="1"):
        ringloop.batched(broken)([1])


@pytest.mark.parametrize(("fn", "axis", "items", "kind", "words"), [
    (lambda batch: batch[1:], 0, [1, 2, 3], ValueError, "3 items gave 2 results"),
    (lambda batch: None, 0, [1], TypeError, "must give a sequence or array of results, not None"),
    (lambda batch: "ab", 0, [1, 2], TypeError, "must give a sequence or array of results"),
    (lambda batch: dict.fromkeys(batch), 0, [1, 2], TypeError, "sequence or array of results"),
    (lambda batch: batch, 0, 5, TypeError, "takes a sequence or array of items, not 5"),
    (lambda item: item, None, 5, TypeError, "takes a sequence or array of items, not 5"),
    (lambda batch: batch, 1, [1, 2], TypeError, "axis=1 needs numpy arrays as items, not <cl"),
    (lambda batch: batch, 2, [numpy.ones(3)], ValueError, "a batch of 2 axes has no axis 2"),
    (lambda batch: batch, 1, numpy.ones(3), ValueError, r"shape \(3,\) has no axis 1 with items"),
    (lambda batch: batch.sum(axis=0), 1, numpy.ones((2, 3)), ValueError, "axis 1 with results"),
    (lambda batch: batch, 0, [numpy.ones(3), numpy.ones(4)], ValueError, "items of one shape"),
])
def test_a_mistake_is_named(fn: Any, axis: Any, items: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        ringloop.batched(fn, axis)(items)
    assert "<lambda>, batched" in str(caught.value)


def test_a_wrong_wrapping_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a function, not 5"):
        ringloop.batched(5)
    for axis in (True, "x", 1.0):
        with pytest.raises(TypeError, match="axis is a number, or None for a function of one item"):
            ringloop.batched(abs, axis)


def test_an_async_function_of_one_item_is_refused_and_closed() -> None:
    async def one(item: int) -> int:
        return item

    with pytest.raises(TypeError, match="returns an awaitable, which axis=None is not for"):
        ringloop.batched(one, axis=None)([1, 2])
