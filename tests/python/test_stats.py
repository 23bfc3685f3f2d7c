"""ringloop.stats(): one snapshot of what a process's ringloop has and has done."""
from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import ringloop
from harness.extensions import load
from harness.loops import Run
from ringloop import _native

calls = load("bridge_calls")
quick = load("bridge_quick")
native = load("bridge_memory")


def of(name: str, module: str = "bridge_calls") -> ringloop.ExportStats:
    found = [each for each in ringloop.stats().gil
             if (each.module, each.name) == (module, name)]
    assert len(found) == 1
    return found[0]


def test_exported_functions_are_counted(on_host: Run) -> None:
    async def main() -> None:
        held, released = of("spin_held"), of("spin_released")
        assert (held.policy, released.policy, of("spin_automatic").policy) == \
            ("hold", "release", "auto")
        await calls.spin_held(10)
        await calls.spin_released(300)
        assert of("spin_held") == dataclasses.replace(held, calls=held.calls + 1)
        now = of("spin_released")
        assert now.calls == released.calls + 1 and now.held_s == 0
        assert now.released_s - released.released_s >= 300e-6
        assert now.waited_s >= released.waited_s

    on_host(main())


def test_plain_functions_that_release_the_gil_are_counted() -> None:
    before = of("sum_released", "bridge_quick")
    quick.sum_released(memoryview(bytes(8 * 1000)).cast("d"))
    now = of("sum_released", "bridge_quick")
    assert now.calls == before.calls + 1 and now.released_s > before.released_s
    assert "small" not in [each.name for each in ringloop.stats().gil]


def test_what_is_alive_is_counted_by_kind(on_host: Run) -> None:
    async def main() -> None:
        before = ringloop.stats().alive
        waiting = asyncio.ensure_future(native.forever())
        await asyncio.sleep(0)
        kept = [calls.count(3), native.nothing()]
        now = ringloop.stats().alive
        more = {kind: now[kind] - before[kind] for kind in now if now[kind] != before[kind]}
        handles = more.pop("handles", 0)            # of ringloop's own loops
        assert handles >= 0
        assert more == {"awaitables": 2, "awaits_pending": 1, "iterators": 1}
        kept.pop().close()
        waiting.cancel()
        await asyncio.wait([waiting])

    on_host(main())


def test_loops_tell_what_they_have_in_flight(on_host: Run) -> None:
    async def main() -> None:
        job = _native._probe_hop()
        ended = asyncio.Event()
        job.add_done_callback(lambda _: ended.set())       # starts it; it ends in a later turn
        stats = ringloop.stats()
        loop = asyncio.get_running_loop()
        mine, = [each for each in stats.loops if each.loop == repr(loop)]
        assert mine.own is isinstance(loop, ringloop.EventLoop)
        assert mine.jobs_in_flight == stats.jobs_in_flight == stats.alive["jobs"] == 1
        await ended.wait()
        again, = [each for each in ringloop.stats().loops if each.loop == repr(loop)]
        assert again.posts >= mine.posts + 1 and again.jobs_in_flight == 0

    on_host(main())


def test_files_and_operations_in_flight_and_buffers(on_host: Run) -> None:
    async def main() -> None:
        before = ringloop.stats().operations_in_flight
        watcher = _native.open_watcher("of nothing")
        task = asyncio.ensure_future(watcher.read(4096))
        await asyncio.sleep(0)
        stats = ringloop.stats()
        assert stats.operations_in_flight > before
        assert all(each.buffer_bytes > 0 for each in stats.loops)
        assert stats.buffers_leased == stats.buffer_bytes_leased == 0
        task.cancel()
        await asyncio.wait([task])
        await watcher.close()

    on_host(main())


def test_a_loop_that_is_closed_is_not_told(run: Run) -> None:
    before = len(ringloop.stats().loops)
    loop = run.new_loop()
    assert len(ringloop.stats().loops) == before + 1
    loop.close()
    assert len(ringloop.stats().loops) == before


def test_it_is_plain_data() -> None:
    def plain(value: Any) -> Any:
        return json.loads(json.dumps(value))

    stats = ringloop.stats()
    assert plain(dataclasses.asdict(stats))["memory"]["frames"]["bytes"] == \
        stats.memory.frames.bytes
    assert stats.posts >= 0
