"""fs.copy(): whole or not at all, with progress, permissions and shutil's errors, on every host."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness.commands import without_slow_steps
from harness.loops import Run
from ringloop import fs

PIECE = 8 << 20
BIG = 3 * PIECE + 12_345


def make(path: Path, size: int, mode: int = 0o640) -> bytes:
    data = os.urandom(min(size, 1 << 16)) * (size // (1 << 16) + 1)
    path.write_bytes(data[:size])
    path.chmod(mode)
    return data[:size]


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20, PIECE, PIECE + 1, BIG])
def test_contents_permissions_and_progress(on_host: Run, tmp_path: Path, size: int) -> None:
    data = make(tmp_path / "from", size, 0o751)
    told: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        told.append((done, total))

    async def main() -> None:
        made = await fs.copy(tmp_path / "from", tmp_path / "to", progress=note)
        assert made == str(tmp_path / "to")
        assert (tmp_path / "to").read_bytes() == data
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o751
        assert names(tmp_path) == ["from", "to"]

    on_host(main())
    assert told[-1] == (size, size)
    assert [total for _, total in told] == [size] * len(told)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert len(told) == max(1, -(-size // PIECE))


def test_names_of_every_kind_and_a_directory_as_the_target(on_host: Run, tmp_path: Path) -> None:
    data = make(tmp_path / "from", 1000)
    (tmp_path / "folder").mkdir()
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"

    async def main() -> None:
        source, folder = os.fsencode(tmp_path / "from"), os.fsencode(tmp_path / "folder")
        assert await fs.copy(source, odd) == odd
        assert await fs.copy(odd, str(tmp_path / "plain")) == str(tmp_path / "plain")
        assert await fs.copy(str(tmp_path / "from"), folder) == folder + b"/from"
        assert await fs.copy(tmp_path / "from", tmp_path / "folder") == f"{tmp_path}/folder/from"
        for path in (odd, tmp_path / "plain", tmp_path / "folder" / "from"):
            assert await fs.read_bytes(path) == data
        before = os.getcwd()
        os.chdir(tmp_path)
        try:
            assert await fs.copy("from", "beside") == "beside"
        finally:
            os.chdir(before)
        assert await fs.read_bytes(tmp_path / "beside") == data

    on_host(main())


def test_what_was_there_is_replaced_in_one_step(on_host: Run, tmp_path: Path) -> None:
    data = make(tmp_path / "from", 5000)
    old = make(tmp_path / "to", 100)
    os.link(tmp_path / "to", tmp_path / "twin")

    async def main() -> None:
        with open(tmp_path / "to", "rb") as reader:
            await fs.copy(tmp_path / "from", tmp_path / "to")
            assert reader.read() == old  # who has it open keeps it
        assert (tmp_path / "to").read_bytes() == data
        assert (tmp_path / "twin").read_bytes() == old

    on_host(main())


def test_links(on_host: Run, tmp_path: Path) -> None:
    data = make(tmp_path / "from", 5000)
    (tmp_path / "link").symlink_to("from")
    (tmp_path / "to link").symlink_to("inner/target")
    (tmp_path / "inner").mkdir()

    async def main() -> None:
        await fs.copy(tmp_path / "link", tmp_path / "followed")
        assert not os.path.islink(tmp_path / "followed")
        await fs.copy(tmp_path / "link", tmp_path / "as link", follow_symlinks=False)
        assert os.readlink(tmp_path / "as link") == "from"
        with pytest.raises(FileExistsError):
            await fs.copy(tmp_path / "link", tmp_path / "followed", follow_symlinks=False)
        await fs.copy(tmp_path / "from", tmp_path / "to link")  # dangling: made behind it
        assert os.path.islink(tmp_path / "to link")
        assert (tmp_path / "inner" / "target").read_bytes() == data
        await fs.copy(tmp_path / "followed", tmp_path / "to link")
        assert names(tmp_path / "inner") == ["target"]
        (tmp_path / "circle").symlink_to("circle")
        with pytest.raises(OSError) as caught:
            await fs.copy(tmp_path / "from", tmp_path / "circle")
        assert caught.value.errno == errno.ELOOP

    on_host(main())


def outcome(error: BaseException) -> tuple[Any, ...]:
    code = error.errno if isinstance(error, OSError) else None
    return type(error), code


def test_errors_are_those_of_shutil(on_host: Run, tmp_path: Path) -> None:
    make(tmp_path / "from", 10)
    make(tmp_path / "other", 10)
    (tmp_path / "full" / "from").mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("from")
    os.link(tmp_path / "from", tmp_path / "twin")

    async def main() -> None:
        for source, target in [
            ("nothing", "to"),
            ("full", "to"),
            ("from", "nothing/to"),
            ("from", "other/to"),
            ("from", "from"),
            ("from", "link"),
            ("from", "twin"),
            ("from", "full"),
            ("fifo", "to"),
            ("from", "fifo"),
        ]:
            with pytest.raises(OSError) as theirs:
                shutil.copy(tmp_path / source, tmp_path / target)
            with pytest.raises(OSError) as ours:
                await fs.copy(tmp_path / source, tmp_path / target)
            assert outcome(ours.value) == outcome(theirs.value), (source, target)
            if not isinstance(ours.value, shutil.Error | shutil.SpecialFileError):
                assert str(tmp_path) in str(ours.value.filename)
                assert ".part" not in str(ours.value)
        assert await fs.exists(tmp_path / "from") and "to" not in names(tmp_path)
        assert not [name for name in names(tmp_path) if name.endswith(".part")]

    on_host(main())


def test_devices_are_not_replaced(on_host: Run, tmp_path: Path) -> None:
    make(tmp_path / "from", 10)

    async def main() -> None:
        for source, target in ((tmp_path / "from", "/dev/null"), ("/dev/null", tmp_path / "to")):
            with pytest.raises(shutil.SpecialFileError):
                await fs.copy(source, target)

    on_host(main())


def test_files_that_claim_to_be_empty_are_copied_whole(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        await fs.copy("/proc/self/status", tmp_path / "status")
        assert (tmp_path / "status").read_bytes().startswith(b"Name:")

    on_host(main())


def test_what_progress_raises_ends_the_copy(on_host: Run, tmp_path: Path) -> None:
    make(tmp_path / "from", BIG)

    class Enough(Exception):
        pass

    def enough(done: int, total: int) -> None:
        if done > PIECE:
            raise Enough

    async def main() -> None:
        with pytest.raises(Enough):
            await fs.copy(tmp_path / "from", tmp_path / "to", progress=enough)
        assert names(tmp_path) == ["from"]

    on_host(main())


def test_a_cancel_in_the_middle_leaves_no_file(on_host: Run, tmp_path: Path) -> None:
    make(tmp_path / "from", BIG)
    old = make(tmp_path / "to", 100)

    async def main() -> None:
        for after in (PIECE, 2 * PIECE):
            reached = asyncio.Event()
            copying = asyncio.create_task(
                fs.copy(
                    tmp_path / "from",
                    tmp_path / "to",
                    progress=lambda done, _, after=after: done >= after and reached.set(),
                )
            )
            await reached.wait()
            copying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await copying
            assert names(tmp_path) == ["from", "to"] and (tmp_path / "to").read_bytes() == old

    on_host(main())


@pytest.mark.parametrize("again", [False, True])
def test_a_cancel_at_every_turn_leaves_the_old_file_or_the_new_one(
    on_host: Run, tmp_path: Path, again: bool
) -> None:
    new = make(tmp_path / "from", 300_000)
    old = make(tmp_path / "to", 100)

    async def main() -> None:
        for turns in range(60):
            copying = asyncio.ensure_future(fs.copy(tmp_path / "from", tmp_path / "to"))
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled = copying.cancel()
            if again:
                await asyncio.sleep(0)
                copying.cancel()
            try:
                await copying
            except asyncio.CancelledError:
                assert cancelled
            assert names(tmp_path) == ["from", "to"]
            assert (tmp_path / "to").read_bytes() in (old, new)

    on_host(main())


def test_a_copy_that_is_closed_half_way_leaves_no_file(on_host: Run, tmp_path: Path) -> None:
    make(tmp_path / "from", BIG)

    async def main() -> None:
        copying = fs.copy(tmp_path / "from", tmp_path / "to")
        waits: Any = copying.send(None)
        for _ in range(8):  # as far as the file beside it
            if [name for name in names(tmp_path) if name.endswith(".part")]:
                break
            waits._asyncio_future_blocking = False
            await ended(waits)
            waits = copying.send(None)
        assert len(names(tmp_path)) == 2
        copying.close()
        assert names(tmp_path) == ["from"]
        await ended(waits)
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del copying, waits
            gc.collect()

    async def ended(work: Any) -> None:
        done = asyncio.Event()
        work.add_done_callback(lambda _: done.set())
        await done.wait()

    on_host(main())


def test_a_full_disk_is_told_with_both_names_and_leaves_no_file(
    on_host: Run, tmp_path: Path
) -> None:
    """RLIMIT_FSIZE stands for it: it fails the same write."""
    make(tmp_path / "from", 1 << 20)
    program = f"""
import asyncio, os, resource, signal
import ringloop
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
async def main():
    try:
        await ringloop.fs.copy({str(tmp_path / "from")!r}, {str(tmp_path / "to")!r})
    except OSError as error:
        print(error.errno, error.filename, error.filename2)
asyncio.run(main())
"""
    del on_host
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    expected = f"{errno.EFBIG} {tmp_path / 'from'} {tmp_path / 'to'}"
    assert (done.stdout.strip(), without_slow_steps(done.stderr)) == (expected, "")
    assert names(tmp_path) == ["from"]


def test_copies_leave_no_descriptor_and_ten_at_once_are_right(on_host: Run, tmp_path: Path) -> None:
    data = make(tmp_path / "from", PIECE + 5)

    async def main() -> None:
        targets = [tmp_path / f"to {number}" for number in range(10)]
        await asyncio.gather(*(fs.copy(tmp_path / "from", target) for target in targets))
        for target in targets:
            assert target.read_bytes() == data
        same = [fs.copy(tmp_path / "from", tmp_path / "same") for _ in range(10)]
        await asyncio.gather(*same)
        assert (tmp_path / "same").read_bytes() == data and len(names(tmp_path)) == 12

    on_host(main())
