"""Awaiting the kernels, on every host: results, cancels, pins, errors, exits and forks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from harness import loops
from harness.forks import fork
from ringloop import _kernels, kernels, memory

np = pytest.importorskip("numpy")

RNG = np.random.default_rng(2)
SQUARE = RNG.random((64, 64), dtype=np.float32)
BIG = RNG.random((2500, 2500), dtype=np.float32)  # a second and more of work


async def until_nothing_runs() -> None:
    while _kernels.unfinished():
        await asyncio.sleep(0.001)


def test_results_are_those_of_the_plain_functions(on_host: loops.Run) -> None:
    async def main() -> None:
        frame = RNG.integers(0, 256, (50, 40, 3), dtype=np.uint8)
        product, blurred, data = await asyncio.gather(
            kernels.matmul(SQUARE, SQUARE),
            kernels.frame_filter(frame, "gaussian5"),
            kernels.jpeg_encode(frame),
        )
        np.testing.assert_array_equal(product, kernels.sync.matmul(SQUARE, SQUARE))
        np.testing.assert_array_equal(blurred, kernels.sync.frame_filter(frame, "gaussian5"))
        assert data == kernels.sync.jpeg_encode(frame)
        np.testing.assert_array_equal(
            await kernels.jpeg_decode(data), kernels.sync.jpeg_decode(data)
        )

    on_host(main())


def test_a_product_of_many_blocks_is_right(on_host: loops.Run) -> None:
    a, b = RNG.random((600, 700)), RNG.random((700, 500))
    # Not a @ b: after a fork in this process numpy's BLAS starts its threads anew.
    expected = np.einsum("ij,jk->ik", a, b, optimize=False)

    async def main() -> None:
        np.testing.assert_allclose(await kernels.matmul(a, b.copy()), expected)

    on_host(main())


def test_a_thousand_at_once_all_come_back(on_host: loops.Run) -> None:
    async def main() -> None:
        products = await asyncio.gather(*[kernels.matmul(SQUARE, SQUARE) for _ in range(1000)])
        expected = kernels.sync.matmul(SQUARE, SQUARE)
        assert all((product == expected).all() for product in products)

    on_host(main())


def test_an_error_inside_the_kernel_is_raised_by_the_await(on_host: loops.Run) -> None:
    whole = kernels.sync.jpeg_encode(RNG.integers(0, 256, (200, 200, 3), dtype=np.uint8))

    async def main() -> None:
        damaged = kernels.jpeg_decode(whole[:-2000])  # the header is fine: accepted by the call
        with pytest.raises(ValueError, match="jpeg_decode: "):
            await damaged

    on_host(main())


def test_a_cancelled_await_stops_its_workers(on_host: loops.Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await kernels.matmul(BIG, BIG)
        spent = kernels.compute_seconds()
        await until_nothing_runs()
        assert kernels.compute_seconds() - spent < 0.5

    on_host(main())


def test_cancelling_before_the_start_never_starts(on_host: loops.Run) -> None:
    async def main() -> None:
        waiting = kernels.matmul(BIG, BIG)
        assert waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert _kernels.unfinished() == 0

    on_host(main())


def test_inputs_are_pinned_until_the_worker_has_left(on_host: loops.Run) -> None:
    async def main() -> None:
        storage = bytearray(2500 * 2500 * 4)
        view = memoryview(storage).cast("f", (2500, 2500))
        task = asyncio.ensure_future(kernels.matmul(view, view))
        del view
        await asyncio.sleep(0.01)
        with pytest.raises(BufferError):
            storage.append(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        await until_nothing_runs()
        storage.append(0)

    on_host(main())


def test_an_await_that_is_dropped_unstarted_releases_its_inputs() -> None:
    data = bytearray(kernels.sync.jpeg_encode(RNG.integers(0, 256, (9, 9, 3), dtype=np.uint8)))
    dropped = kernels.jpeg_decode(data)
    with pytest.raises(BufferError):
        data.append(0)
    del dropped
    data.append(0)


def test_exit_with_work_in_flight_is_clean() -> None:
    code = """
import asyncio, logging
logging.disable()  # a hint about OpenBLAS is none of this test's business
import numpy as np
from ringloop import kernels
big = np.ones((2500, 2500), np.float32)
async def main():
    for _ in range(8):
        asyncio.ensure_future(kernels.matmul(big, big))
    await asyncio.sleep(0.01)
    raise SystemExit(7)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True)
    assert (ended.returncode, ended.stderr) == (7, b"")


def test_a_forked_child_is_told_to_spawn() -> None:
    asyncio.run(_one_product())
    child = fork()
    if child == 0:
        try:
            kernels.matmul(SQUARE, SQUARE)
        except RuntimeError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def _one_product() -> None:
    await kernels.matmul(SQUARE, SQUARE)


def test_what_jpeg_encode_has_made_is_counted_until_it_is_a_bytes(on_host: loops.Run) -> None:
    sizes: list[int] = []

    async def main() -> None:
        frame = memoryview(bytes(64 * 64 * 3)).cast("B", (64, 64, 3))
        with memory.register_hook(alloc=lambda at, size: sizes.append(size)):
            encoded = await kernels.jpeg_encode(frame)
            assert memory.stats().kernel_results == memory.Usage(0, 0)
        assert len(encoded) in sizes

    on_host(main())
