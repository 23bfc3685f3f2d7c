"""The loaded way: a program of Python's, which has the data and imports the logic as a module.

    PYTHONPATH=BUILD:SCRIPTS python loaded.py

Answers lines as src/host.cpp does.
"""
from __future__ import annotations

import array
import functools
import sys
import time

import work

import ringloop

PIXELS = bytes(range(251))


@functools.cache
def floats(size: int) -> memoryview:
    count = size * size
    values = (array.array("f", range(251)) * (count // 251 + 1))[:count]
    return memoryview(values).cast("B").cast("f", (size, size))


async def multiply(size: int) -> tuple[int, float]:
    a, b = floats(size), floats(size)
    begin = time.perf_counter_ns()
    product = await work.multiply(a, b)
    return time.perf_counter_ns() - begin, sum(product)


@functools.cache
def image(height: int) -> memoryview:
    width = height * 16 // 9 * 3
    count = height * width
    return memoryview((PIXELS * (count // 251 + 1))[:count]).cast("B", (height, width))


async def blur(height: int) -> tuple[int, float]:
    frame = image(height)
    begin = time.perf_counter_ns()
    blurred = await work.blur(frame)
    return time.perf_counter_ns() - begin, sum(blurred)


@functools.cache
def records(count: int) -> bytes:
    text = "[%s]" % ", ".join(
        f'{{"id": {i}, "name": "item {i}", "category": "c{i % 17}", "price": {i % 997 / 4:.2f}, '
        f'"count": {i % 5}}}' for i in range(count))
    return text.encode()


async def totals(count: int) -> tuple[int, float]:
    data = records(count)
    begin = time.perf_counter_ns()
    all_of_it = work.totals(work.parse(data))
    return time.perf_counter_ns() - begin, sum(all_of_it.values())


async def main() -> None:
    for line in sys.stdin:
        what, size = line.split()
        took_ns, total = await {"multiply": multiply, "blur": blur, "totals": totals}[what](
            int(size))
        print(took_ns, f"{total:.1f}", flush=True)


ringloop.run(main())
