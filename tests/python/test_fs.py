"""ringloop.fs against os: the same results, the same errors with the same names, on every host."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import accounts
from harness.loops import Run
from ringloop import fs

NOT_UTF8 = b"\xff\xfe-name"


def populate(root: Path) -> Path:
    """What every case finds: files, directories, links, an odd name."""
    root.mkdir()
    (root / "file").write_bytes(b"contents")
    (root / "other").write_bytes(b"x" * 100)
    (root / "empty").mkdir()
    (root / "full").mkdir()
    (root / "full" / "inside").write_bytes(b"1")
    (root / "link").symlink_to("file")
    (root / "broken").symlink_to("nowhere")
    (root / "link to full").symlink_to("full")
    Path(os.fsdecode(os.fsencode(root) + b"/" + NOT_UTF8)).write_bytes(b"odd")
    return root


def snapshot(root: Path) -> list[tuple[Any, ...]]:
    """Names, kinds, permissions, contents below a directory."""
    seen: list[tuple[Any, ...]] = []
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content: Any = None
            if stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            seen.append((os.path.relpath(path, root), status.st_mode, status.st_nlink, content))
    return sorted(seen, key=lambda each: os.fsencode(each[0]))


def without(root: Path, value: Any) -> Any:
    """`value` as it would be in any other root."""
    if isinstance(value, str):
        return value.replace(str(root), "ROOT")
    if isinstance(value, bytes):
        return value.replace(os.fsencode(root), b"ROOT")
    if isinstance(value, list):
        return sorted((without(root, each) for each in value), key=os.fsencode)
    return value


def told(root: Path, error: OSError) -> tuple[Any, ...]:
    names = without(root, error.filename), without(root, error.filename2)
    return type(error), error.errno, error.strerror, *names


Case = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def pair(name: str, *arguments: Any, theirs: Any = None, **named: Any) -> Case:
    """One call, of ours and of os, on a root: text "/x" is a path below it."""

    def below(root: Any, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("/"):
            return str(root) + value
        if isinstance(value, bytes) and value.startswith(b"/"):
            return os.fsencode(root) + value
        if isinstance(value, Path):
            return root / value
        return value

    def call(function: Any) -> Callable[[Any], Any]:
        return lambda root: function(*(below(root, each) for each in arguments), **named)

    return call(getattr(fs, name)), call(theirs or getattr(os, name))


ANY = os.R_OK | os.W_OK | os.X_OK
CASES: dict[str, Case] = {
    "rename": pair("rename", "/file", "/new"),
    "rename bytes": pair("rename", b"/file", b"/new"),
    "rename Path": pair("rename", Path("file"), Path("new")),
    "rename mixed": pair("rename", "/nothing", b"/new"),
    "rename odd": pair("rename", b"/" + NOT_UTF8, "/plain"),
    "rename over": pair("rename", "/file", "/other"),
    "rename to itself": pair("rename", "/file", "/file"),
    "rename missing": pair("rename", "/nothing", "/new"),
    "rename missing Path": pair("rename", Path("nothing"), Path("new")),
    "rename into missing": pair("rename", "/file", "/nothing/new"),
    "rename below a file": pair("rename", "/file", "/other/new"),
    "rename file over directory": pair("rename", "/file", "/empty"),
    "rename directory over file": pair("rename", "/empty", "/file"),
    "rename over full": pair("rename", "/empty", "/full"),
    "rename over empty": pair("rename", "/full", "/empty"),
    "rename into itself": pair("rename", "/full", "/full/below"),
    "replace": pair("replace", "/file", "/other"),
    "replace missing": pair("replace", "/nothing", "/other"),
    "unlink": pair("unlink", "/file"),
    "unlink link": pair("unlink", "/link"),
    "unlink missing": pair("unlink", "/nothing"),
    "unlink missing bytes": pair("unlink", b"/nothing"),
    "unlink directory": pair("unlink", "/empty"),
    "remove": pair("remove", b"/" + NOT_UTF8),
    "remove missing": pair("remove", Path("nothing")),
    "mkdir": pair("mkdir", "/new"),
    "mkdir mode": pair("mkdir", "/new", 0o700),
    "mkdir named": pair("mkdir", "/new", mode=0o711),
    "mkdir exists": pair("mkdir", "/file"),
    "mkdir deep": pair("mkdir", "/a/b"),
    "makedirs": pair("makedirs", "/a/b/c"),
    "makedirs bytes": pair("makedirs", b"/a/b/c"),
    "makedirs Path": pair("makedirs", Path("a/b")),
    "makedirs mode": pair("makedirs", "/a/b", 0o700),
    "makedirs slash": pair("makedirs", "/a/b/"),
    "makedirs dots": pair("makedirs", "/a/./b/."),
    "makedirs exists": pair("makedirs", "/full"),
    "makedirs exist_ok": pair("makedirs", "/full", exist_ok=True),
    "makedirs below existing": pair("makedirs", "/full/a/b", exist_ok=True),
    "makedirs over file": pair("makedirs", "/file", exist_ok=True),
    "makedirs below file": pair("makedirs", "/file/a/b", exist_ok=True),
    "rmdir": pair("rmdir", "/empty"),
    "rmdir full": pair("rmdir", "/full"),
    "rmdir file": pair("rmdir", "/file"),
    "rmdir missing": pair("rmdir", "/nothing"),
    "link": pair("link", "/file", "/new"),
    "link exists": pair("link", "/file", "/other"),
    "link missing": pair("link", "/nothing", b"/new"),
    "link directory": pair("link", "/full", "/new"),
    "symlink": pair("symlink", "file", "/new"),
    "symlink is directory": pair("symlink", "full", "/new", target_is_directory=True),
    "symlink exists": pair("symlink", "x", "/file"),
    "symlink into missing": pair("symlink", "x", "/nothing/y"),
    "readlink": pair("readlink", "/link"),
    "readlink bytes": pair("readlink", b"/link"),
    "readlink Path": pair("readlink", Path("broken")),
    "readlink file": pair("readlink", "/file"),
    "readlink missing": pair("readlink", "/nothing"),
    "chmod": pair("chmod", "/file", 0o640),
    "chmod missing": pair("chmod", "/nothing", 0o640),
    "truncate": pair("truncate", "/file", 3),
    "truncate named": pair("truncate", "/file", length=0),
    "truncate longer": pair("truncate", "/file", 5000),
    "truncate missing": pair("truncate", "/nothing", 3),
    "truncate directory": pair("truncate", "/full", 3),
    "listdir": pair("listdir", ""),
    "listdir root": pair("listdir", "/"),
    "listdir bytes": pair("listdir", b"/"),
    "listdir Path": pair("listdir", Path("full")),
    "listdir empty": pair("listdir", "/empty"),
    "listdir missing": pair("listdir", "/nothing"),
    "listdir file": pair("listdir", Path("file")),
    "access": pair("access", "/file", os.R_OK),
    "access exists": pair("access", "/file", os.F_OK),
    "access missing": pair("access", "/nothing", os.F_OK),
    "access executable": pair("access", "/file", os.X_OK),
    "access effective": pair("access", "/full", ANY, effective_ids=True),
    "access broken": pair("access", "/broken", os.F_OK),
    "access link": pair("access", "/broken", os.F_OK, follow_symlinks=False),
    "stat": pair("stat", "/link"),
    "stat missing": pair("stat", Path("nothing")),
    "stat below file": pair("stat", b"/file/x"),
    "lstat missing": pair("lstat", "/nothing"),
    "exists": pair("exists", "/link", theirs=os.path.exists),
    "exists broken": pair("exists", "/broken", theirs=os.path.exists),
    "exists missing": pair("exists", b"/nothing", theirs=os.path.exists),
    "exists NUL": pair("exists", "a\0b", theirs=os.path.exists),
    "isfile": pair("isfile", "/link", theirs=os.path.isfile),
    "isfile directory": pair("isfile", Path("full"), theirs=os.path.isfile),
    "isdir": pair("isdir", "/link to full", theirs=os.path.isdir),
    "isdir file": pair("isdir", "/file", theirs=os.path.isdir),
    "islink": pair("islink", "/broken", theirs=os.path.islink),
    "islink file": pair("islink", "/file", theirs=os.path.islink),
    "getsize": pair("getsize", "/link", theirs=os.path.getsize),
    "getsize missing": pair("getsize", "/nothing", theirs=os.path.getsize),
}


@pytest.mark.parametrize("function", sorted({name.split()[0] for name in CASES}))
def test_it_does_what_os_does(on_host: Run, tmp_path: Path, function: str) -> None:
    for name in CASES:
        if name.split()[0] == function:
            (tmp_path / name).mkdir()
            compare(on_host, tmp_path / name, name)


def compare(on_host: Run, folder: Path, name: str) -> None:
    ours, theirs = CASES[name]
    here, there = populate(folder / "here"), populate(folder / "there")

    async def main() -> tuple[Any, ...]:
        try:
            return (without(here, await ours(here)),)
        except OSError as error:
            return told(here, error)

    try:
        expected: tuple[Any, ...] = (without(there, theirs(there)),)
    except OSError as error:
        expected = told(there, error)
    got = on_host(main())
    if name == "stat":
        got, expected = (got[0].st_size,), (expected[0].st_size,)
    assert got == expected, name
    assert snapshot(here) == snapshot(there), name


def test_lstat_is_os_lstat(on_host: Run, tmp_path: Path) -> None:
    root = populate(tmp_path / "root")

    async def main() -> None:
        for name in ("link", "broken", "file", "full"):
            assert await fs.lstat(root / name) == os.lstat(root / name)

    on_host(main())


# ---- bad arguments

BAD_CALLS: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("rename", (5, "x"), TypeError),
    ("rename", ("x", None), TypeError),
    ("rename", ("a\0b", "x"), ValueError),
    ("replace", ("x", b"a\0b"), ValueError),
    ("unlink", (3.5,), TypeError),
    ("unlink", ("\0",), ValueError),
    ("remove", (None,), TypeError),
    ("mkdir", ("x", "mode"), TypeError),
    ("mkdir", (object(),), TypeError),
    ("makedirs", (7,), TypeError),
    ("makedirs", ("a\0b/c",), ValueError),
    ("makedirs", ("x", "mode"), TypeError),
    ("rmdir", (["x"],), TypeError),
    ("link", ("x", 1), TypeError),
    ("symlink", (1, "x"), TypeError),
    ("readlink", (1,), TypeError),
    ("chmod", ("x", "y"), TypeError),
    ("truncate", ("x", -1), ValueError),
    ("truncate", ("x", "1"), TypeError),
    ("truncate", ("a\0b", 1), ValueError),
    ("truncate", ("x", 1 << 64), OverflowError),
    ("listdir", (1.0,), TypeError),
    ("scandir", (None,), TypeError),
    ("scandir", ("a\0b",), ValueError),
    ("access", ("x", "y"), TypeError),
    ("access", ("a\0b", 0), ValueError),
    ("exists", (None,), TypeError),
    ("isdir", (1.5,), TypeError),
    ("getsize", ("\0",), ValueError),
    ("read_bytes", (5,), TypeError),
    ("read_text", ("x", 5), TypeError),
    ("read_text", ("x", "no-such"), LookupError),
    ("read_text", ("x", "utf-8", "no-such"), LookupError),
    ("write_text", ("x", b"bytes"), TypeError),
    ("write_text", ("x", "y", "utf-8", None, "z"), ValueError),
    ("write_text", ("x", "ü", "ascii"), UnicodeEncodeError),
    ("write_bytes", ("x", "text"), TypeError),
    ("write_bytes", (None, b"x"), TypeError),
    ("write_bytes", ("x", memoryview(b"abcdef")[::2]), BufferError),
    ("copy", (None, "x"), TypeError),
    ("copy", ("x", "a\0b"), ValueError),
    ("watch", (5,), TypeError),
    ("watch", ("a\0b",), ValueError),
]


@pytest.mark.parametrize("name, arguments, expected", BAD_CALLS)
def test_bad_arguments_raise_at_the_call(
    name: str, arguments: tuple[Any, ...], expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        getattr(fs, name)(*arguments)


def test_a_progress_that_cannot_be_called_is_refused_at_the_call() -> None:
    with pytest.raises(TypeError, match="progress must be callable"):
        fs.copy("x", "y", progress=5)  # type: ignore[arg-type]


# ---- directories


def test_ten_thousand_entries_are_all_told(on_host: Run, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    names = {f"entry {number:05}" for number in range(10_000)}
    for name in names:
        (folder / name).touch()

    async def main() -> None:
        listed = await fs.listdir(folder)
        assert len(listed) == 10_000 and set(listed) == names
        seen = [entry.name async for entry in fs.scandir(folder)]
        assert len(seen) == 10_000 and set(seen) == names

    on_host(main())


@pytest.mark.parametrize("kind", [str, Path, bytes])
def test_entries_are_as_those_of_os_scandir(on_host: Run, tmp_path: Path, kind: Any) -> None:
    root = populate(tmp_path / "root")
    os.mkfifo(root / "fifo")
    given = os.fsencode(root) if kind is bytes else kind(root)

    def facts(entry: Any) -> tuple[Any, ...]:
        flags = [entry.is_dir(), entry.is_file(), entry.is_symlink()]
        flags += [entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)]
        return entry.name, entry.path, entry.inode(), flags, repr(entry), os.fspath(entry)

    async def main() -> None:
        with os.scandir(given) as theirs:
            expected = sorted(facts(entry) for entry in theirs)
        got = []
        async with fs.scandir(given) as entries:
            async for entry in entries:
                got.append(facts(entry))
                if os.fsencode(entry.name) != b"broken":
                    assert await entry.stat() == os.stat(entry.path)
                assert await entry.stat(follow_symlinks=False) == os.lstat(entry.path)
        assert sorted(got) == expected

    on_host(main())


def test_here_is_the_default_of_listdir_and_scandir(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        before = os.getcwd()
        os.chdir(populate(tmp_path / "root"))
        try:
            assert sorted(await fs.listdir()) == sorted(os.listdir())
            paths = [entry.path async for entry in fs.scandir()]
            assert sorted(paths) == sorted(entry.path for entry in os.scandir())
        finally:
            os.chdir(before)

    on_host(main())


def test_scandir_tells_what_is_wrong_as_os_does(on_host: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for path in (tmp_path / "nothing", populate(tmp_path / "root") / "file"):
            with pytest.raises(OSError) as theirs:
                os.scandir(path)
            with pytest.raises(OSError) as ours:
                async for _ in fs.scandir(path):
                    pass
            assert told(tmp_path, ours.value) == told(tmp_path, theirs.value)

    on_host(main())


def test_a_scan_that_is_left_early_or_never_begun_leaves_nothing(
    on_host: Run, tmp_path: Path
) -> None:
    root = populate(tmp_path / "root")

    async def main() -> None:
        fs.scandir(root)
        async for _ in fs.scandir(root):
            break
        async with fs.scandir(root) as entries:
            await anext(entries)
        with pytest.raises(StopAsyncIteration):
            await anext(entries)

    on_host(main())


def test_files_that_vanish_while_they_are_listed_harm_nobody(on_host: Run, tmp_path: Path) -> None:
    folder = tmp_path / "busy"
    folder.mkdir()
    names = [f"{number:04}" for number in range(500)]
    for name in names:
        (folder / name).symlink_to("nowhere")
    steady = folder / "steady"
    steady.touch()

    async def remove() -> None:
        for name in names:
            await fs.unlink(folder / name)

    async def main() -> None:
        removing = asyncio.create_task(remove())
        while not removing.done():
            seen = {entry.name async for entry in fs.scandir(folder)}
            assert "steady" in seen and seen <= {*names, "steady"}
            assert "steady" in await fs.listdir(folder)
        await removing
        entries = [entry async for entry in fs.scandir(folder)]
        assert [entry.name for entry in entries] == ["steady"]
        steady.unlink()
        assert entries[0].is_file()  # as it was seen
        with pytest.raises(FileNotFoundError) as caught:
            await entries[0].stat()
        assert caught.value.filename == str(steady)

    on_host(main())


def test_many_threads_of_work_at_once_all_end(on_host: Run, tmp_path: Path) -> None:
    async def one(number: int) -> None:
        folder = tmp_path / f"{number}"
        await fs.makedirs(folder / "a" / "b")
        await fs.write_text(folder / "a" / "b" / "file", f"{number}")
        await fs.symlink("b", folder / "a" / "link")
        assert await fs.readlink(folder / "a" / "link") == "b"
        await fs.link(folder / "a" / "link" / "file", folder / "twin")
        assert await fs.read_text(folder / "twin") == f"{number}"
        assert sorted(await fs.listdir(folder)) == ["a", "twin"]
        await fs.rename(folder, tmp_path / f"done {number}")

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(200)))
        assert len(await fs.listdir(tmp_path)) == 200

    on_host(main())


# ---- contents


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-16", "latin-1"])
def test_text_is_written_and_read_as_pathlib_does(
    on_host: Run, tmp_path: Path, encoding: str | None, newline: str | None
) -> None:
    text = "a\nb\r\nc\rd\n" + "ü" * 1000

    async def main() -> None:
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        assert await fs.write_text(ours, text, encoding, newline=newline) == len(text)
        with open(theirs, "w", encoding=encoding, newline=newline) as file:
            file.write(text)
        assert ours.read_bytes() == theirs.read_bytes()
        assert await fs.read_text(ours, encoding) == theirs.read_text(encoding)
        assert await fs.read_text(ours, "ascii", "replace") == theirs.read_text("ascii", "replace")

    on_host(main())


def test_contents_of_what_is_no_file_are_refused_as_open_does(on_host: Run, tmp_path: Path) -> None:
    root = populate(tmp_path / "root")

    async def main() -> None:
        for name, mode in (("nothing", "r"), ("full", "r"), ("full", "w"), ("nothing/x", "w")):
            path = root / name
            with pytest.raises(OSError) as theirs:
                open(path, mode)
            calls: list[Any] = [lambda: fs.read_bytes(path), lambda: fs.read_text(path)]
            if mode == "w":
                calls = [lambda: fs.write_bytes(path, b"x"), lambda: fs.write_text(path, "x")]
            for call in calls:
                with pytest.raises(OSError) as ours:
                    await call()
                assert told(root, ours.value) == told(root, theirs.value)
        with pytest.raises(UnicodeDecodeError):
            await fs.write_bytes(root / "file", b"\xff")
            await fs.read_text(root / "file", "utf-8")

    on_host(main())


# ---- cancelling

OPERATIONS: dict[str, Callable[[Path], Any]] = {
    "stat": lambda root: fs.stat(root / "file"),
    "access": lambda root: fs.access(root / "file", os.R_OK),
    "exists": lambda root: fs.exists(root / "file"),
    "getsize": lambda root: fs.getsize(root / "file"),
    "rename": lambda root: fs.rename(root / "file", root / "new"),
    "unlink": lambda root: fs.unlink(root / "file"),
    "mkdir": lambda root: fs.mkdir(root / "new"),
    "makedirs": lambda root: fs.makedirs(root / "a" / "b" / "c"),
    "rmdir": lambda root: fs.rmdir(root / "empty"),
    "link": lambda root: fs.link(root / "file", root / "new"),
    "symlink": lambda root: fs.symlink("file", root / "new"),
    "readlink": lambda root: fs.readlink(root / "link"),
    "chmod": lambda root: fs.chmod(root / "file", 0o600),
    "truncate": lambda root: fs.truncate(root / "file", 1),
    "listdir": lambda root: fs.listdir(root),
    "scandir": lambda root: anext(fs.scandir(root)),
    "read_bytes": lambda root: fs.read_bytes(root / "file"),
    "read_text": lambda root: fs.read_text(root / "file"),
    "write_bytes": lambda root: fs.write_bytes(root / "file", b"y" * 300_000),
    "write_text": lambda root: fs.write_text(root / "file", "y" * 300_000),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_cancel_at_every_await_leaves_nothing_behind(
    on_host: Run, tmp_path: Path, name: str
) -> None:
    async def main(root: Path, turns: int) -> None:
        task = asyncio.ensure_future(OPERATIONS[name](root))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = task.cancel()
        try:
            await task
            assert not cancelled
        except asyncio.CancelledError:
            assert cancelled
        before = snapshot(root)
        await fs.stat(root)
        assert snapshot(root) == before  # nothing goes on behind a cancel

    for turns in (0, 1, 2, 4):
        on_host(main(populate(tmp_path / str(turns)), turns))


def test_a_loop_that_closes_with_work_in_flight_collects_it(on_host: Run, tmp_path: Path) -> None:
    root = populate(tmp_path / "root")
    loop = on_host.new_loop()

    async def main() -> list[Any]:
        work: list[Any] = [fs.listdir(root) for _ in range(20)]
        work += [fs.rename(root / "file", root / "new"), fs.readlink(root / "link")]
        work += [fs.mkdir(root / f"{number}") for number in range(20)]
        for each in work:
            each.add_done_callback(lambda _: None)
        return work

    work = loop.run_until_complete(main())
    loop.close()
    assert all(each.done() for each in work)


def test_it_leaves_no_memory_behind(on_host: Run, tmp_path: Path) -> None:
    root = populate(tmp_path / "root")

    async def rounds() -> None:
        for _ in range(40):
            await fs.rename(root / "file", root / "new")
            await fs.rename(root / "new", root / "file")
            await fs.mkdir(root / "dir")
            await fs.rmdir(root / "dir")
            await fs.readlink(root / "link")
            await fs.access(root / "file", os.R_OK)
            await fs.truncate(root / "file", 3)
            (root / "copy").touch()
            async for entry in fs.scandir(root):
                assert entry.name
            async with fs.watch(root) as changes:
                await fs.unlink(root / "copy")
                await anext(changes)
            for failing in (fs.unlink(root / "none"), fs.rename(root / "none", root / "x")):
                try:
                    await failing
                except FileNotFoundError:
                    continue
            listing = asyncio.ensure_future(fs.listdir(root))
            await asyncio.sleep(0)
            listing.cancel()
            await asyncio.gather(listing, return_exceptions=True)

    async def main() -> None:
        counts = []
        for _ in range(6):
            await rounds()
            counts.append(accounts.allocated_blocks())
        accounts.assert_flat(counts, 40)

    on_host(main())
