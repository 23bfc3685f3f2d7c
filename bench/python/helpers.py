"""./dev bench helpers: what the small helpers save or cost, each beside what it replaces.

batched and coalesce: 1,000 small products, one await each and as one; 1,000 calls in an executor,
one each and coalesced. mixin: making an object and calling what three bases give. Task factory and
hooks: creating and awaiting a task, without and with them. On asyncio, uvloop and ringloop.

    --rounds N   --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from common import hosts, placing, report, stats
from common.hosts import HOSTS

ITEMS = 1000
# Row, and what stands over what in its ratio.
ROWS = (
    ("products: one await each / batched", "product each", "product batched"),
    ("products: one await each / coalesced", "product gathered", "product coalesced"),
    ("executor: one call each / coalesced", "executor each", "executor coalesced"),
    ("mixin / inheritance", "mixin", "inheritance"),
    ("task factory / none", "our factory", "no factory"),
    ("no-op hook / none", "hook", "no factory"),
    ("native no-op hook / none", "native hook", "no factory"),
    ("native no-op hook / the same without", "native hook", "bare"),
    ("task factory and no-op hook / task factory", "our factory, hook", "our factory"),
)


async def many(make: Callable[[Any], Awaitable[Any]]) -> None:
    await asyncio.gather(*map(make, range(ITEMS)))


def products() -> dict[str, Callable[[], Awaitable[Any]]]:
    import numpy
    import ringloop
    from ringloop.kernels import matmul

    right = numpy.eye(16, dtype=numpy.float32)
    rows = [numpy.full((1, 16), at, dtype=numpy.float32) for at in range(ITEMS)]
    flat = [row[0] for row in rows]
    batched = ringloop.batched(matmul)
    coalesced = ringloop.coalesce(lambda items: batched(items, right))

    async def each() -> None:
        for row in rows:
            await matmul(row, right)

    async def one(at: int) -> None:
        await matmul(rows[at], right)

    return {
        "product each": each,
        "product batched": lambda: batched(flat, right),
        "product gathered": lambda: many(one),
        "product coalesced": lambda: many(lambda at: coalesced(flat[at])),
    }


def executor() -> dict[str, Callable[[], Awaitable[Any]]]:
    import ringloop

    loop = asyncio.get_running_loop()

    async def single(item: Any) -> Any:
        return await loop.run_in_executor(None, abs, item)

    async def several(items: list[Any]) -> Any:
        return await loop.run_in_executor(None, list, items)

    coalesced = ringloop.coalesce(several)
    return {
        "executor each": lambda: many(single),
        "executor coalesced": lambda: many(coalesced),
    }


def classes() -> dict[str, Callable[[], Awaitable[Any]]]:
    import ringloop

    bases = [type(f"Base{at}", (), {f"call{at}": lambda self: None}) for at in range(3)]
    inheriting = type("Inheriting", tuple(bases), {})
    mixed = ringloop.mixin(*bases)(type("Mixed", (), {}))

    async def use(cls: Any) -> None:
        for _ in range(20 * ITEMS):
            made = cls()
            made.call0()
            made.call1()
            made.call2()

    return {"inheritance": lambda: use(inheriting), "mixin": lambda: use(mixed)}


def tasks() -> dict[str, Callable[[], Awaitable[Any]]]:
    import ringloop

    loop = asyncio.get_running_loop()
    ours = ringloop.task_factory()
    # Where hooks need no task factory there is none: that is what "bare" has, too.
    needed = None if isinstance(loop, ringloop.EventLoop) else ours

    async def nothing() -> None:
        pass

    async def create(factory: Any, before_run: Any = None) -> None:
        loop.set_task_factory(factory)
        hook = ringloop.hooks.add(before_run=before_run) if before_run else None
        for _ in range(5 * ITEMS):
            await loop.create_task(nothing())
        if hook is not None:
            hook.remove()
        loop.set_task_factory(None)

    return {
        "no factory": lambda: create(None),
        "our factory": lambda: create(ours),
        "bare": lambda: create(needed),
        "hook": lambda: create(needed, callable),
        "native hook": lambda: create(needed, ringloop._native._probe_hook()),
        "our factory, hook": lambda: create(ours, callable),
    }


async def measure(rounds: int) -> dict[str, list[float]]:
    cells = {**products(), **executor(), **classes(), **tasks()}
    found: dict[str, list[float]] = {name: [] for name in cells}
    for work in cells.values():
        await work()
    for _ in range(rounds):
        for name in random.sample(list(cells), len(cells)):
            begin = time.perf_counter()
            await cells[name]()
            found[name].append(time.perf_counter() - begin)
    return found


def run_host(host: str, rounds: int) -> None:
    placing.pin({0, 1}, real_time=False)
    with asyncio.Runner(loop_factory=__import__(host).new_event_loop) as runner:
        print(json.dumps(runner.run(measure(rounds))), flush=True)


def main() -> None:
    parser = report.options("helpers", __doc__, rounds=15)
    parser.add_argument("--host", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.host:
        return run_host(options.host, options.rounds)
    found: dict[str, dict[str, list[float]]] = {}
    for host in HOSTS:
        found[host] = hosts.measured(__file__, host, "--rounds", str(options.rounds))
    rows = [
        [name, *(str(stats.paired(found[host][over], found[host][under])) for host in HOSTS)]
        for name, over, under in ROWS
    ]
    print(report.table(["ratio", *HOSTS], rows))
    print()
    report.save(options.json, "helpers", found)
    batched = found["ringloop"]
    report.ratio(
        stats.paired(batched["product each"], batched["product batched"]).value,
        "1,000 small products, one await each over one batched call, ringloop",
    )


if __name__ == "__main__":
    main()
