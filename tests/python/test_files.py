"""ringloop.open(), ringloop.fs: files as awaits, on every host of them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import ringloop
from harness import accounts
from harness.loops import Run
from ringloop import fs

DATA = b"".join(b"line %d\n" % number for number in range(20_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.write_bytes(DATA)
    return made


def test_both_ways_of_opening(on_host: Run, path: Path) -> None:
    async def main() -> None:
        async with ringloop.open(path, "rb") as file:
            assert await file.read(6) == b"line 0"
            assert not file.closed and file.name == path and file.mode == "rb"
            assert os.fstat(file.fileno()).st_size == len(DATA)
        assert file.closed
        file = await ringloop.open(str(path), "rb")
        assert file.readable() and not file.writable() and file.seekable() and not file.isatty()
        await file.close()
        await file.close()
        other = await asyncio.create_task(ringloop.open(os.fsencode(path), "rb"))
        await other.close()

    on_host(main())


def test_reading_in_every_way_gives_the_same_bytes(on_host: Run, path: Path) -> None:
    async def main() -> None:
        async with ringloop.open(path, "rb") as file:
            assert (
                await file.read() == DATA and await file.read() == b"" and await file.read(5) == b""
            )
            await file.seek(0)
            assert await file.readall() == DATA
            await file.seek(0)
            assert b"".join([line async for line in file]) == DATA
            await file.seek(0)
            assert b"".join(await file.readlines()) == DATA
            await file.seek(0)
            assert b"".join([chunk async for chunk in file.chunks(1000)]) == DATA
            await file.seek(0)
            buffer, got = bytearray(7000), bytearray()
            while count := await file.readinto(buffer):
                got += buffer[:count]
            assert got == DATA
            assert await file.pread(10, 20) == DATA[20:30]
            assert (
                await file.pread(10, len(DATA) - 3) == DATA[-3:]
                and await file.pread(9, 1 << 40) == b""
            )
        assert await fs.read_bytes(path) == DATA

    on_host(main())


def test_the_position_is_right_after_every_mix(on_host: Run, path: Path) -> None:
    async def main() -> None:
        async with ringloop.open(path, "rb") as file:
            assert await file.readline() == b"line 0\n" and await file.tell() == 7
            assert await file.readline(3) == b"lin" and await file.read(3) == b"e 1"
            assert await file.tell() == 13 and await file.readline() == b"\n"
            assert await file.readinto(bytearray(5)) == 5 and await file.tell() == 19
            assert await file.seek(2, io.SEEK_CUR) == 21 and await file.readline() == DATA[21:28]
            assert await file.seek(-7, io.SEEK_END) == len(DATA) - 7
            assert await file.read(100) == DATA[-7:]
            await file.seek(0)
            await file.readline()
            assert len(await file.read(100_000)) == 100_000 and await file.tell() == 100_007

    on_host(main())


def test_writing_appending_creating(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "new"
        async with ringloop.open(path, "xb") as file:
            assert await file.write(b"abc") == 3
            assert path.read_bytes() == b"abc"  # nothing is held back
            await file.writelines([b"d", bytearray(b"e"), memoryview(b"f")])
            assert await file.tell() == 6
            assert await file.pwrite(b"X", 1) == 1 and await file.write(b"") == 0
            await file.flush()
            await file.fsync()
            await file.fsync(data_only=True)
        assert path.read_bytes() == b"aXcdef"
        with pytest.raises(FileExistsError):
            await ringloop.open(path, "xb")
        async with ringloop.open(path, "ab") as file:
            assert await file.tell() == 6
            await file.write(b"gh")
            assert await file.tell() == 8
        async with ringloop.open(path, "r+b") as file:
            assert await file.readline() == b"aXcdefgh"
            await file.seek(2)
            assert await file.read(1) == b"c"
            await file.write(b"__")
            assert await file.read() == b"fgh"
            assert await file.truncate(4) == 4
        assert path.read_bytes() == b"aXc_"
        async with ringloop.open(path, "wb"):
            assert path.read_bytes() == b""
        big = os.urandom(3_000_001)
        assert await fs.write_bytes(path, big) == len(big)
        assert await fs.read_bytes(path) == big

    on_host(main())


def test_text(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "text"
        lines = [f"{number} grün ✓ 𝄞\n" for number in range(5000)]
        async with ringloop.open(path, "w", encoding="utf-8") as file:
            assert await file.write(lines[0]) == len(lines[0])
            await file.writelines(lines[1:])
        assert path.read_text("utf-8") == "".join(lines)
        async with ringloop.open(path, encoding="utf-8") as file:
            assert file.encoding == "utf-8" and file.errors == "strict"
            assert await file.readline() == lines[0]
            at = await file.tell()
            assert at == len(lines[0].encode())
            assert await file.read(5) == lines[1][:5]
            assert [line async for line in file] == [lines[1][5:], *lines[2:]]
            assert await file.read() == "" and await file.readline() == ""
            await file.seek(at)
            assert await file.readlines() == lines[1:]
            await file.seek(0)
            assert await file.read() == "".join(lines)
            await file.seek(0)
            assert "".join([part async for part in file.chunks(777)]) == "".join(lines)

    on_host(main())


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1", "utf-8-sig"])
def test_text_reads_and_writes_as_the_builtin_does(
    on_host: Run, tmp_path: Path, newline: str | None, encoding: str
) -> None:
    text = "a\nb\r\nc\rd\r\n\n\r" + "ü" * 70_000 + "\r\nend"

    async def main() -> None:
        path, reference = tmp_path / "ours", tmp_path / "theirs"
        with open(reference, "w", encoding=encoding, newline=newline) as builtin:
            builtin.write(text[:9])
            builtin.write(text[9:])
        async with ringloop.open(path, "w", encoding=encoding, newline=newline) as file:
            await file.write(text[:9])
            await file.write(text[9:])
        assert path.read_bytes() == reference.read_bytes()
        with open(path, encoding=encoding, newline=newline) as builtin:
            expected = builtin.readlines()
        async with ringloop.open(path, encoding=encoding, newline=newline) as file:
            assert await file.readlines() == expected
            await file.seek(0)
            assert await file.read() == "".join(expected)

    on_host(main())


# ---- bad input

BAD_OPENS: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = [
    (("x", "q"), {}, ValueError),
    (("x", "rw"), {}, ValueError),
    (("x", "rbt"), {}, ValueError),
    (("x", "b"), {}, ValueError),
    (("x", ""), {}, ValueError),
    (("x", "rr"), {}, ValueError),
    (("x", 5), {}, TypeError),
    ((None,), {}, TypeError),
    (("a\0b",), {}, ValueError),
    (("x", "rb"), {"encoding": "utf-8"}, ValueError),
    (("x", "rb"), {"newline": ""}, ValueError),
    (("x",), {"encoding": "no-such"}, LookupError),
    (("x",), {"newline": "x"}, ValueError),
    (("x",), {"errors": "no-such"}, LookupError),
    (("x", "r", "1"), {}, TypeError),
]


@pytest.mark.parametrize("arguments, named, expected", BAD_OPENS)
def test_bad_arguments_of_open_raise_at_once(
    arguments: tuple[Any, ...], named: dict[str, Any], expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        ringloop.open(*arguments, **named)


def test_bad_operations_raise_at_once(on_host: Run, path: Path) -> None:
    async def main() -> None:
        async with ringloop.open(path, "rb") as file:
            for wrong in (
                lambda: file.read(-2),
                lambda: file.pread(-1, 0),
                lambda: file.pread(1, -1),
            ):
                with pytest.raises(ValueError):
                    wrong()
            with pytest.raises(io.UnsupportedOperation, match="not writable"):
                file.write(b"x")
            with pytest.raises(TypeError):
                file.read("5")
            with pytest.raises(TypeError):
                file.readinto(b"read-only")
            with pytest.raises(ValueError):
                await file.seek(-1)
            with pytest.raises(ValueError):
                await file.seek(0, 9)
        for closed in (
            lambda: file.read(1),
            lambda: file.pread(1, 0),
            lambda: file.fileno(),
            lambda: file.readinto(bytearray(1)),
        ):
            with pytest.raises(ValueError, match="closed file"):
                closed()
        async with ringloop.open(path, "wb") as file:
            with pytest.raises(io.UnsupportedOperation, match="not readable"):
                file.read(1)
            with pytest.raises(TypeError, match="str"):
                file.write("text")
        async with ringloop.open(path, "w") as file:
            with pytest.raises(TypeError):
                await file.write(b"bytes")
            with pytest.raises(io.UnsupportedOperation):
                await file.read(1)

    on_host(main())


def test_errors_name_the_path(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        missing = tmp_path / "missing"
        for awaitable in (fs.read_bytes(missing), fs.stat(missing), ringloop.open(missing)):
            with pytest.raises(FileNotFoundError) as caught:
                await awaitable
            assert caught.value.filename == str(missing)
        for awaitable in (fs.read_bytes(tmp_path), ringloop.open(tmp_path)):
            with pytest.raises(IsADirectoryError):
                await awaitable

    on_host(main())


# ---- stat, odd files


def test_stat_is_os_stat(on_host: Run, path: Path) -> None:
    async def main() -> None:
        link = path.with_name("link")
        link.symlink_to(path)
        for each in (path, path.parent, link, Path("/dev/null"), Path("/proc/self/stat")):
            assert await fs.stat(each) == os.stat(each)
            assert await fs.stat(each, follow_symlinks=False) == os.lstat(each)
        mine, theirs = await fs.stat(path), os.stat(path)
        for name in (
            "st_mtime_ns",
            "st_ctime_ns",
            "st_mtime",
            "st_blocks",
            "st_blksize",
            "st_rdev",
        ):
            assert getattr(mine, name) == getattr(theirs, name), name

    on_host(main())


def test_a_read_of_a_file_without_a_size_gives_all_that_was_asked_for(on_host: Run) -> None:
    """It used to end after 65,536 bytes."""
    wanted = 300_000
    with open("/proc/kallsyms", "rb") as plain:
        expected = plain.read(wanted)
    if len(expected) < wanted:
        pytest.skip("/proc/kallsyms is short here")

    async def main() -> None:
        async with ringloop.open("/proc/kallsyms", "rb") as file:
            assert len(await file.pread(wanted, 0)) == wanted
            assert len(await file.pread(wanted, 100_000)) == wanted
            assert len(await file.read(wanted)) == wanted
            buffer = bytearray(wanted)
            await file.seek(0)
            assert await file.readinto(buffer) == wanted
            everything = await file.readall()
            assert len(await file.read(wanted)) == 0 and len(everything) > 0

    on_host(main())


def test_files_whose_size_is_a_lie(on_host: Run) -> None:
    async def main() -> None:
        assert (await fs.read_bytes("/proc/self/status")).startswith(b"Name:")
        async with ringloop.open("/proc/self/status", "rb") as file:
            assert (await file.read()).startswith(b"Name:")
        async with ringloop.open("/dev/zero", "rb") as file:
            assert await file.read(10) == bytes(10)
        async with ringloop.open("/dev/null", "wb") as file:
            assert await file.write(b"x" * 10_000) == 10_000

    on_host(main())


def test_an_empty_file(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "empty").touch()
        assert await fs.read_bytes(tmp_path / "empty") == b""
        async with ringloop.open(tmp_path / "empty") as file:
            assert await file.read() == "" and await file.readlines() == []

    on_host(main())


# ---- a FIFO


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    made = tmp_path / "fifo"
    os.mkfifo(made)
    return made


async def several_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0.001)


def test_a_slow_fifo_blocks_nobody_and_loses_nothing(on_host: Run, fifo: Path) -> None:
    async def main() -> None:
        async with ringloop.open(fifo, "rb") as file:
            assert not file.seekable()
            waiting = asyncio.create_task(file.read(100))
            await several_turns()
            assert not waiting.done()
            writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(writer, b"first")
                assert await waiting == b"first"
                for _ in range(5):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.002):
                            await file.read(100)
                os.write(writer, b"second")
                assert await file.readinto(bytearray(3)) == 3
                assert await file.read(100) == b"ond"
                os.write(writer, b"line\nrest")
                assert await file.readline() == b"line\n"
                assert await file.read(100) == b"rest"
            finally:
                os.close(writer)
            assert await file.read(100) == b"" and await file.read() == b""
            with pytest.raises(io.UnsupportedOperation):
                await file.seek(0)
            with pytest.raises(io.UnsupportedOperation):
                file.pread(1, 0)

    on_host(main())


def test_a_cancelled_close_leaves_a_waiting_read_and_closes_behind_it(
    on_host: Run, fifo: Path
) -> None:
    async def main() -> None:
        file = await ringloop.open(fifo, "rb")
        number = file.fileno()
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        try:
            waiting = asyncio.ensure_future(file.read(100))
            await several_turns()
            closing = asyncio.ensure_future(file.close())
            await several_turns()
            assert not closing.done()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(20):
                    await closing
            assert file.closed and not waiting.done()
            os.write(writer, b"last")
            assert await waiting == b"last"
        finally:
            os.close(writer)
        with pytest.raises(OSError):
            os.fstat(number)

    on_host(main())


def test_bytes_of_a_fifo_that_beat_the_cancel_go_to_the_next_read(on_host: Run, fifo: Path) -> None:
    async def main() -> None:
        async with ringloop.open(fifo, "rb") as file:
            writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            got = b""
            for number in range(30):
                task = asyncio.ensure_future(file.read(4))
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                os.write(writer, b"%04d" % number)
                task.cancel()
                try:
                    got += await task
                except asyncio.CancelledError:
                    pass
            os.close(writer)
            got += await file.read()
            assert got == b"".join(b"%04d" % number for number in range(30))

    on_host(main())


def test_writing_to_a_full_fifo_waits(on_host: Run, fifo: Path) -> None:
    async def main() -> None:
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        data = os.urandom(300_000)
        try:
            async with ringloop.open(fifo, "wb") as file:
                writing = asyncio.ensure_future(file.write(data))
                got = b""
                while len(got) < len(data):
                    await asyncio.sleep(0)
                    try:
                        got += os.read(reader, 1 << 16)
                    except BlockingIOError:
                        pass
                assert await writing == len(data) and got == data
                stuck = asyncio.create_task(file.write(data))
                await several_turns()
                stuck.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await stuck
        finally:
            os.close(reader)

    on_host(main())


# ---- concurrency, cancelling, lifetime


def test_operations_at_the_position_keep_their_order(on_host: Run, path: Path) -> None:
    async def main() -> None:
        async with ringloop.open(path, "rb") as file:
            pieces = await asyncio.gather(*(file.read(100) for _ in range(1000)))
            assert b"".join(pieces) == DATA[:100_000]
        async with ringloop.open(path, "wb") as file:
            await asyncio.gather(*(file.write(b"%05d" % number) for number in range(1000)))
        assert path.read_bytes() == b"".join(b"%05d" % number for number in range(1000))

    on_host(main())


def test_a_thousand_files_and_reads_at_once(on_host: Run, path: Path) -> None:
    async def main() -> None:
        assert set(await asyncio.gather(*(fs.read_bytes(path) for _ in range(1000)))) == {DATA}
        async with ringloop.open(path, "rb") as file:
            offsets = range(0, 1000 * 64, 64)
            pieces = await asyncio.gather(*(file.pread(64, offset) for offset in offsets))
            assert b"".join(pieces) == DATA[: 1000 * 64]

    on_host(main())


OPERATIONS: dict[str, Any] = {
    "open": lambda path, file: ringloop.open(path, "rb"),
    "read": lambda path, file: file.read(100_000),
    "read all": lambda path, file: file.read(),
    "readinto": lambda path, file: file.readinto(bytearray(100_000)),
    "readline": lambda path, file: file.readline(),
    "pread": lambda path, file: file.pread(100_000, 5),
    "write": lambda path, file: file.write(bytes(100_000)),
    "fsync": lambda path, file: file.fsync(),
    "close": lambda path, file: file.close(),
    "read_bytes": lambda path, file: fs.read_bytes(path),
    "stat": lambda path, file: fs.stat(path),
}


@pytest.mark.parametrize("turns", [0, 1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_cancel_at_every_await_of_every_operation(
    on_host: Run, path: Path, name: str, turns: int
) -> None:
    async def main() -> None:
        file = await ringloop.open(path, "r+b")
        position = await file.tell()
        task = asyncio.ensure_future(OPERATIONS[name](path, file))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = task.cancel()
        try:
            result = await task
            assert not cancelled or task.done()
            if name == "open":
                await result.close()
        except asyncio.CancelledError:
            assert cancelled
            if name.startswith("read") and name != "read_bytes":
                assert await file.tell() == position
        await file.close()

    on_host(main())


def test_close_waits_for_what_is_in_flight_and_refuses_more(on_host: Run, path: Path) -> None:
    async def main() -> None:
        file = await ringloop.open(path, "rb")
        reads = [asyncio.ensure_future(file.read(1000)) for _ in range(50)]
        late = file.read(1)
        await asyncio.sleep(0)
        await file.close()
        assert b"".join([await each for each in reads]) == DATA[:50_000]
        with pytest.raises(ValueError, match="closed file"):
            await late

    on_host(main())


def test_a_loop_closed_with_file_work_in_flight(on_host: Run, path: Path, fifo: Path) -> None:
    loop = on_host.new_loop()

    async def main() -> list[Any]:
        file = await ringloop.open(fifo, "rb")
        plain = await ringloop.open(path, "rb")
        work = [file._raw.read(5), file._raw.read(5), plain.read(100_000), fs.read_bytes(path)]
        for each in work:
            each.add_done_callback(lambda _: None)
        closing = file._raw.close()
        closing.add_done_callback(lambda _: None)
        await plain.close()
        return [*work[:2], closing]

    ended = loop.run_until_complete(main())
    loop.close()
    assert all(each.done() for each in ended)
    del ended
    gc.collect()


def test_a_file_that_nobody_closed_warns_and_is_closed(on_host: Run, path: Path) -> None:
    async def main() -> None:
        file = await ringloop.open(path, "rb")
        number = file.fileno()
        await asyncio.sleep(0)  # the handle of this very step holds what open() gave
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del file
            gc.collect()
        with pytest.raises(OSError):
            os.fstat(number)

    on_host(main())


def test_file_work_leaves_no_memory_behind(on_host: Run, path: Path) -> None:
    async def rounds() -> None:
        for _ in range(50):
            async with ringloop.open(path, "r+b") as file:
                await file.read(100)
                await file.readline()
                await file.write(b"x")
                await asyncio.gather(*(file.pread(10, 5) for _ in range(5)))
                task = asyncio.ensure_future(file.read(70_000))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await fs.read_bytes(path)
            await fs.stat(path)

    async def main() -> None:
        counts = []
        for _ in range(6):
            await rounds()
            counts.append(accounts.allocated_blocks())
        accounts.assert_flat(counts, 50)

    on_host(main())


def test_a_truncate_that_waits_for_a_worker_keeps_to_its_file(on_host: Run, tmp_path: Path) -> None:
    """close() waits for it: the descriptor's number may be another file's right behind that."""
    cut, other = tmp_path / "cut", tmp_path / "other"
    cut.write_bytes(b"c" * 1000)
    other.write_bytes(b"o" * 1000)

    async def main() -> None:
        release = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            pool.submit(release.wait)
            try:
                first = await ringloop.open(cut, "r+b")
                truncating = asyncio.create_task(first.truncate(10))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                await first.close()
                async with ringloop.open(other, "r+b"):
                    release.set()
                    assert await truncating == 10
            finally:
                release.set()
        assert (cut.stat().st_size, other.stat().st_size) == (10, 1000)

    on_host(main())
