"""fs.watch(): what changes is told, on every host, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from pathlib import Path
from typing import Any

import pytest
from harness.loops import Run
from ringloop import fs

Told = tuple[str, str, str | None]


def short(root: Path, change: fs.Change) -> Told:
    """Kind and names below the root."""
    old = None if change.old_path is None else os.path.relpath(change.old_path, root)
    return change.kind, os.path.relpath(change.path, root), old


async def until(changes: Any, root: Path, last: Told) -> list[Told]:
    """The changes up to `last`, itself included."""
    seen: list[Told] = []
    async with asyncio.timeout(30):
        while not seen or seen[-1] != last:
            seen.append(short(root, await anext(changes)))
    return seen


async def fence(changes: Any, root: Path) -> list[Told]:
    """All changes so far."""
    (root / "fence").mkdir()
    seen = await until(changes, root, ("created", "fence", None))
    (root / "fence").rmdir()
    await until(changes, root, ("deleted", "fence", None))
    return seen[:-1]


def test_each_kind_of_change_is_told(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        async with fs.watch(tmp_path) as changes:
            (tmp_path / "a").write_bytes(b"x")
            assert await fence(changes, tmp_path) == [
                ("created", "a", None),
                ("modified", "a", None),
            ]
            (tmp_path / "a").write_bytes(b"y" * 5)
            os.utime(tmp_path / "a")
            assert await fence(changes, tmp_path) == [("modified", "a", None)]
            (tmp_path / "a").rename(tmp_path / "b")
            assert await fence(changes, tmp_path) == [("moved", "b", "a")]
            (tmp_path / "b").unlink()
            assert await fence(changes, tmp_path) == [("deleted", "b", None)]
            (tmp_path / "link").symlink_to("b")
            (tmp_path / "dir").mkdir()
            change = await anext(changes)
            assert change == fs.Change("created", str(tmp_path / "link"))
            assert change.path == str(tmp_path / "link") and not change.is_dir
            change = await anext(changes)
            assert change == fs.Change("created", str(tmp_path / "dir"), None, True)

    on_host(main())


def test_moves_into_and_out_of_it_are_created_and_deleted(on_host: Run, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a").touch()

    async def main() -> None:
        async with fs.watch(root) as changes:
            (outside / "a").rename(root / "b")
            assert await anext(changes) == fs.Change("created", str(root / "b"))
            (root / "b").rename(outside / "c")
            assert await anext(changes) == fs.Change("deleted", str(root / "b"))
            (outside / "c").rename(root / "d")
            (root / "d").rename(root / "e")
            assert await fence(changes, root) == [("created", "d", None), ("moved", "e", "d")]

    on_host(main())


@pytest.mark.parametrize("kind", [str, bytes])
def test_names_that_are_not_utf8_are_told_as_os_tells_them(
    on_host: Run, tmp_path: Path, kind: type
) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"

    async def main() -> None:
        given: Any = os.fsencode(tmp_path) if kind is bytes else str(tmp_path)
        async with fs.watch(given) as changes:
            os.mkdir(odd)
            expected = odd if kind is bytes else os.fsdecode(odd)
            assert (await anext(changes)).path == expected

    on_host(main())


def test_a_file_is_watched_by_its_name(on_host: Run, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("1")
    (tmp_path / "link").symlink_to("config")

    async def expect(changes: Any, *expected: tuple[str, str, str | None]) -> None:
        for each in expected:
            async with asyncio.timeout(30):
                assert short(tmp_path, await anext(changes)) == each

    async def main() -> None:
        async with fs.watch(path) as changes:
            (tmp_path / "other").write_text("not asked for")
            path.write_text("2")
            await expect(changes, ("modified", "config", None))
            (tmp_path / "new").write_text("3")
            (tmp_path / "new").rename(path)  # as editors save
            await expect(changes, ("moved", "config", "new"))
            path.rename(tmp_path / "away")
            await expect(changes, ("moved", "away", "config"))
            path.write_text("4")
            await expect(changes, ("created", "config", None), ("modified", "config", None))
            path.unlink()
            await expect(changes, ("deleted", "config", None))
            path.write_text("5")
            await expect(changes, ("created", "config", None))
        async with fs.watch(tmp_path / "link") as changes:
            path.write_text("6")
            await expect(changes, ("modified", "link", None))

    on_host(main())


def test_below_every_directory_also_new_ones(on_host: Run, tmp_path: Path) -> None:
    (tmp_path / "old" / "deep").mkdir(parents=True)

    async def main() -> None:
        async with fs.watch(tmp_path, recursive=True) as changes:
            (tmp_path / "old" / "deep" / "file").touch()
            assert (await fence(changes, tmp_path))[0] == ("created", "old/deep/file", None)
            (tmp_path / "new" / "deeper").mkdir(parents=True)
            (tmp_path / "new" / "deeper" / "file").touch()
            (tmp_path / "new" / "file").touch()
            seen = await fence(changes, tmp_path)
            for name in ("new", "new/deeper", "new/deeper/file", "new/file"):
                assert seen.count(("created", name, None)) == 1, (name, seen)
            (tmp_path / "new").rename(tmp_path / "old" / "moved")
            seen = await fence(changes, tmp_path)
            assert ("moved", "old/moved", "new") in seen
            (tmp_path / "old" / "moved" / "deeper" / "late").mkdir()
            seen = await fence(changes, tmp_path)
            assert ("created", "old/moved/deeper/late", None) in seen
            (tmp_path / "old" / "moved" / "deeper" / "late").rmdir()
            seen = await fence(changes, tmp_path)
            assert ("deleted", "old/moved/deeper/late", None) in seen

    on_host(main())


def test_what_was_moved_out_is_not_watched_any_more(on_host: Run, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "dir" / "below").mkdir(parents=True)
    outside.mkdir()

    async def main() -> None:
        async with fs.watch(root, recursive=True) as changes:
            (root / "dir").rename(outside / "dir")
            assert await anext(changes) == fs.Change("deleted", str(root / "dir"), None, True)
            (outside / "dir" / "file").touch()
            (outside / "dir" / "below" / "file").touch()
            assert await fence(changes, root) == []
            (outside / "dir").rename(root / "back")
            (root / "back" / "below" / "again").touch()
            seen = await fence(changes, root)
            for name in ("back", "back/file", "back/below", "back/below/again"):
                assert seen.count(("created", name, None)) == 1, (name, seen)

    on_host(main())


def test_not_below_unless_asked(on_host: Run, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()

    async def main() -> None:
        async with fs.watch(tmp_path) as changes:
            (tmp_path / "dir" / "file").touch()
            assert await fence(changes, tmp_path) == []

    on_host(main())


def test_the_end_of_the_directory_is_the_last_change(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for how in (os.rmdir, lambda path: os.rename(path, tmp_path / "elsewhere")):
            root = tmp_path / "root"
            root.mkdir()
            async with fs.watch(root) as changes:
                how(root)
                seen = [change async for change in changes]
                assert seen[-1] == fs.Change("deleted", str(root), None, True)

    on_host(main())


# ---- trouble


def test_what_cannot_be_watched(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        missing = tmp_path / "nothing"
        with pytest.raises(FileNotFoundError) as caught:
            async with fs.watch(missing):
                raise AssertionError("entered")
        assert caught.value.filename == str(missing)
        changes = fs.watch(tmp_path)
        with pytest.raises(RuntimeError, match="enter the watch first"):
            await anext(changes)
        async with changes:
            pass
        with pytest.raises(RuntimeError, match="entered once"):
            async with changes:
                raise AssertionError("entered")
        with pytest.raises(StopAsyncIteration):
            await anext(changes)

    on_host(main())


def test_leaving_the_block_ends_another_tasks_iteration(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[Any] = []

        async def follow(changes: Any) -> None:
            async for change in changes:
                seen.append(change)

        async with fs.watch(tmp_path) as changes:
            following = asyncio.create_task(follow(changes))
            (tmp_path / "a").mkdir()
            while not seen:
                await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="another task waits"):
                await anext(changes)
        async with asyncio.timeout(30):
            await following
        assert [each.kind for each in seen] == ["created"]

    on_host(main())


def test_a_cancelled_wait_loses_no_change(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        seen: list[str] = []
        async with fs.watch(tmp_path, recursive=True) as changes:
            for number in range(60):
                waiting = asyncio.ensure_future(anext(changes))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                (tmp_path / f"{number:02}").mkdir()
                (tmp_path / f"{number:02}").rename(tmp_path / f"{number:02} moved")
                for _ in range(number % 3):
                    await asyncio.sleep(0)
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    seen.append((await waiting).path)
            async with asyncio.timeout(30):
                while not seen or not seen[-1].endswith("59 moved"):
                    seen.append((await anext(changes)).path)
        for number in range(60):
            assert f"{tmp_path}/{number:02}" in seen and f"{tmp_path}/{number:02} moved" in seen

    on_host(main())


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8])
def test_a_cancel_while_entering_leaves_nothing(on_host: Run, tmp_path: Path, turns: int) -> None:
    for number in range(20):
        (tmp_path / f"{number}" / "below").mkdir(parents=True)

    async def enter() -> None:
        async with fs.watch(tmp_path, recursive=True) as changes:
            await anext(changes)

    async def main() -> None:
        entering = asyncio.create_task(enter())
        for _ in range(turns):
            await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    on_host(main())


def test_nothing_is_lost_under_load(on_host: Run, tmp_path: Path) -> None:
    count = 2000

    async def work() -> None:
        for number in range(count):
            path = tmp_path / f"{number}"
            path.touch()
            path.rename(tmp_path / f"{number} moved")
            if number % 50 == 0:
                await asyncio.sleep(0)

    async def main() -> None:
        async with fs.watch(tmp_path) as changes:
            working = asyncio.create_task(work())
            created, moved = set(), set()
            async with asyncio.timeout(60):
                while len(moved) < count:
                    change = await anext(changes)
                    assert change.kind in ("created", "modified", "moved")
                    if change.kind == "created":
                        created.add(change.path)
                    elif change.kind == "moved":
                        assert change.path == change.old_path + " moved"
                        moved.add(change.old_path)
            assert created == moved
            await working

    on_host(main())


def test_changes_that_the_kernel_dropped_are_told(on_host: Run, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"this machine queues {most} events: too many to overflow")

    async def main() -> None:
        first, second = tmp_path / "0", tmp_path / "1"
        first.touch()
        async with fs.watch(tmp_path) as changes:
            for _ in range(most // 4 + 10):  # four events each
                os.rename(first, second)
                os.rename(second, first)
            async with asyncio.timeout(60):
                kinds = set()
                while "overflow" not in kinds:
                    change = await anext(changes)
                    kinds.add(change.kind)
            assert change == fs.Change("overflow", str(tmp_path)) and kinds == {"moved", "overflow"}
            (tmp_path / "after").mkdir()
            assert (await anext(changes)).kind == "created"

    on_host(main())


def test_a_loop_that_closes_while_a_watch_waits(on_host: Run, tmp_path: Path) -> None:
    loop = on_host.new_loop()

    async def main() -> Any:
        watch = await fs.watch(tmp_path).__aenter__()
        waiting = watch._file.read(100)
        waiting.add_done_callback(lambda _: None)
        return waiting

    waiting = loop.run_until_complete(main())
    with pytest.warns(ResourceWarning, match="unclosed file"):
        loop.close()
        gc.collect()
    assert waiting.done()
