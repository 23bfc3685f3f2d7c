"""Python's half of the logic: the same whoever runs it, and wherever the data is."""
from __future__ import annotations

import array
import json
import marshal
from typing import Any

import logic


async def multiply(a: memoryview, b: memoryview) -> memoryview:
    size = a.shape[0]
    product = memoryview(bytearray(a.nbytes)).cast(a.format)
    await logic.multiply(a, b, product, size)
    return product


async def blur(frame: memoryview) -> memoryview:
    height, width = frame.shape
    blurred = memoryview(bytearray(frame.nbytes))
    await logic.blur(frame, blurred, height, width)
    return blurred


def parse(text: bytes | memoryview) -> list[dict[str, Any]]:
    return json.loads(str(text, "utf-8"))


def totals(records: list[dict[str, Any]]) -> dict[str, float]:
    return logic.totals(records)


# ---- the same for data that comes and goes as a string of the marshal module's

def square(values: str) -> memoryview:
    floats = array.array("f", marshal.loads(values))
    size = round(len(floats) ** 0.5)
    return memoryview(floats).cast("B").cast("f", (size, size))


async def multiply_values(a: bytes, b: bytes) -> bytes:
    product = await multiply(square(a), square(b))
    return marshal.dumps(product.tolist())


async def blur_values(pixels: bytes, width: int) -> bytes:
    frame = memoryview(bytes(marshal.loads(pixels)))
    blurred = await blur(frame.cast("B", (len(frame) // width, width)))
    return marshal.dumps(blurred.tolist())


def parse_values(text: bytes) -> bytes:
    return marshal.dumps(json.loads(marshal.loads(text)))


def totals_values(records: bytes) -> bytes:
    return marshal.dumps(totals(marshal.loads(records)))
