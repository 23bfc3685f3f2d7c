"""ringloop.memory: the account of native memory, tracemalloc's domain, hooks."""
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import ringloop
from harness.extensions import load
from harness.loops import Run
from ringloop import memory

native = load("bridge_memory")


def test_blocks_are_counted_to_the_byte() -> None:
    before = memory.stats()
    small, large = native.take(24), native.take_without_gil(1 << 20)
    now = memory.stats()
    assert (now.other.bytes - before.other.bytes, now.other.blocks - before.other.blocks) == \
        (24 + (1 << 20), 2)
    assert now.bytes - before.bytes == 24 + (1 << 20) and now.blocks - before.blocks == 2
    native.give_without_gil(small, 24)
    native.give(large, 1 << 20)
    assert native.mean(1000) == 2.0
    assert memory.stats().other == before.other


def frames_in_use() -> memory.Usage:
    now = memory.stats()
    return memory.Usage(now.frames.bytes - now.kept_frames.bytes,
                        now.frames.blocks - now.kept_frames.blocks)


def test_frames_are_there_as_long_as_their_coroutines(on_host: Run) -> None:
    async def main() -> None:
        before = frames_in_use()
        tasks = [asyncio.ensure_future(native.forever()) for _ in range(100)]
        await asyncio.sleep(0)
        now = frames_in_use()
        assert now.blocks >= before.blocks + 100
        assert now.bytes - before.bytes >= 64 * (now.blocks - before.blocks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert frames_in_use() == before

    on_host(main())


def test_the_pool_of_a_loop_is_there_as_long_as_the_loop(run: Run) -> None:
    before = memory.stats().receive_pools
    loop = run.new_loop()
    now = memory.stats().receive_pools
    assert now.bytes - before.bytes >= 64 * 65536
    loop.close()
    assert memory.stats().receive_pools == before


def test_the_memory_of_shared_handles_is_counted(on_host: Run) -> None:
    async def main() -> None:
        before = memory.stats().shared_handles
        handle = ringloop.SharedHandle(lanes=1, slots=8)
        now = memory.stats().shared_handles
        assert now.blocks == before.blocks + 1 and now.bytes > before.bytes
        handle.close()
        del handle
        assert memory.stats().shared_handles == before

    on_host(main())


# ---- tracemalloc

DOMAIN = """
import asyncio, random, sys, tracemalloc
import ringloop
sys.path.append(sys.argv[1])
import bridge_memory as native

def check() -> int:
    expected = ringloop.memory.stats()
    traces = tracemalloc.take_snapshot().traces
    found = [trace for trace in traces if trace.domain == ringloop.memory.DOMAIN]
    assert sum(trace.size for trace in found) == expected.bytes, (found, expected)
    assert len(found) == expected.blocks
    return expected.bytes

chance = random.Random(7)
takes, gives = (native.take, native.take_without_gil), (native.give, native.give_without_gil)
start = check()
held = []
for _ in range(10_000):
    size = chance.choice((16, 100, 5000, 1 << 16))
    held.append((chance.choice(takes)(size), size))       # this line is in the traces
    if chance.random() < 0.9:
        chance.choice(gives)(*held.pop(chance.randrange(len(held))))
assert held and check() == start + sum(size for _, size in held)
snapshot = tracemalloc.take_snapshot().filter_traces(
    [tracemalloc.DomainFilter(True, ringloop.memory.DOMAIN)])
here = [trace for trace in snapshot.traces if trace.traceback[0].filename == "<string>"]
assert len(here) >= len(held) / 3
while held:
    chance.choice(gives)(*held.pop())
assert check() == start

async def main() -> None:
    tasks = [asyncio.ensure_future(native.forever()) for _ in range(2000)]
    await asyncio.sleep(0.01)
    assert check() > start + 2000 * 64
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    check()

asyncio.run(main())
ringloop.run(main())
check()
tracemalloc.stop()
native.give(native.take(100), 100)
assert ringloop.memory.stats().other.bytes == 0
print("equal")
"""


@pytest.mark.no_ledger
def test_tracemalloc_s_domain_is_equal_to_the_account() -> None:
    folder = Path(native.__file__).parent
    done = subprocess.run([sys.executable, "-X", "tracemalloc", "-c", DOMAIN, str(folder)],
                          env={**os.environ}, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr


# ---- hooks

def test_hooks_are_told_in_order() -> None:
    told: list[tuple[str, int, int]] = []
    before = memory.stats()
    with memory.register_hook(alloc=lambda at, size: told.append(("alloc", at, size)),
                              free=lambda at, size: told.append(("free", at, size))):
        block = native.take(40)
        native.give(block, 40)
        other = native.take_without_gil(50)
        thread = threading.Thread(target=native.give_without_gil, args=(other, 50))
        thread.start()
        thread.join()
        assert memory.stats() == before
    assert told == [("alloc", block, 40), ("free", block, 40),
                    ("alloc", other, 50), ("free", other, 50)]
    native.give(native.take(60), 60)
    memory.stats()
    assert len(told) == 4


def test_hooks_are_called_without_being_asked_for() -> None:
    told = threading.Event()
    with memory.register_hook(alloc=lambda at, size: told.set()):
        native.give(native.take(10), 10)
        for _ in range(100_000):           # the interpreter does it between two of its steps
            if told.is_set():
                return
    raise AssertionError("never called")


def test_what_a_hook_raises_is_told_and_stops_nobody(
        monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[Any] = []
    told: list[int] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(args.exc_type))

    def fail(_: int, size: int) -> None:
        raise KeyError(size)

    with memory.register_hook(alloc=fail), \
            memory.register_hook(alloc=lambda at, size: told.append(size)):
        native.give(native.take(30), 30)
        memory.stats()
    assert raised == [KeyError] and told == [30]


def test_a_hook_may_register_and_remove_hooks() -> None:
    told: list[int] = []
    inner: list[memory.Registration] = []

    def outer(_: int, size: int) -> None:
        if not inner:
            inner.append(memory.register_hook(alloc=lambda at, size: told.append(size)))
        registration.remove()

    registration = memory.register_hook(alloc=outer)
    native.give(native.take(10), 10)
    memory.stats()
    native.give(native.take(20), 20)
    memory.stats()
    inner[0].remove()
    inner[0].remove()
    native.give(native.take(30), 30)
    memory.stats()
    assert told == [20]


def test_bad_hooks_are_refused() -> None:
    with pytest.raises(TypeError, match="at least one of alloc, free"):
        memory.register_hook()
    with pytest.raises(TypeError, match="free is a function of address and bytes, not 'no'"):
        memory.register_hook(free="no")     # type: ignore[arg-type]
