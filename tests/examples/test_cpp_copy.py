"""examples/cpp/copy.cpp: files and trees, whole or not at all."""
from __future__ import annotations

import os
import pty
import random
import re
import signal
import subprocess
from pathlib import Path

from examples.running import LIMIT_S, command


def copy(backend: str, source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(backend, "copy", source, target), capture_output=True, text=True,
                          check=False, timeout=LIMIT_S)


def test_a_file_of_many_pieces_arrives_whole(backend: str, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3 * 256 * 1024 * 7 + 12345)
    (tmp_path / "from").write_bytes(data)
    (tmp_path / "from").chmod(0o640)
    done = copy(backend, tmp_path / "from", tmp_path / "to")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"1 files, {len(data)} bytes\n"
    assert (tmp_path / "to").read_bytes() == data
    assert (tmp_path / "to").stat().st_mode & 0o777 == 0o640


def test_a_tree_arrives_with_its_folders_links_and_empty_files(backend: str,
                                                               tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "a" / "b").mkdir(parents=True)
    (source / "empty folder").mkdir()
    for number in range(50):
        (source / "a" / f"{number}").write_bytes(bytes([number]) * number * 100)
    (source / "a" / "b" / "link").symlink_to("../1")
    assert copy(backend, source, target).returncode == 0
    def seen(root: Path) -> dict[str, object]:
        return {str(path.relative_to(root)):
                os.readlink(path) if path.is_symlink() else
                path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    assert seen(target) == seen(source)


def test_what_is_there_already_is_left_alone(backend: str, tmp_path: Path) -> None:
    (tmp_path / "from").write_text("new")
    (tmp_path / "to").write_text("old")
    done = copy(backend, tmp_path / "from", tmp_path / "to")
    assert done.returncode == 1 and "exists already" in done.stderr
    assert (tmp_path / "to").read_text() == "old"
    done = copy(backend, tmp_path / "nowhere", tmp_path / "other")
    assert done.returncode == 1 and not (tmp_path / "other").exists()


def test_a_file_that_cannot_be_copied_whole_is_removed_again(backend: str, tmp_path: Path) -> None:
    """A source whose size lies: /proc's files are 0 bytes long, /sys's are longer than they are."""
    source = Path("/sys/kernel/uevent_seqnum")
    done = copy(backend, source, tmp_path / "to")
    assert done.returncode == 1 and "shorter" in done.stderr
    assert not (tmp_path / "to").exists()


def test_on_a_terminal_a_bar_grows_to_its_end(backend: str, tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(bytes(4 << 20))
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(backend, "copy", tmp_path / "from", tmp_path / "to"),
                          stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:
            pass        # the other end of a terminal is gone
        process.communicate(timeout=LIMIT_S)
    os.close(ours)
    shares = [int(share) for share in re.findall(rb" (\d+) %", said)]
    assert process.returncode == 0
    assert shares == sorted(shares) and shares[-1] == 100
    assert b"[" + b"#" * 40 + b"] 100 %" in said


def test_an_interrupt_leaves_no_half_file(backend: str, tmp_path: Path) -> None:
    with open(tmp_path / "from", "wb") as file:
        file.truncate(1 << 36)      # 64 GiB of nothing: it cannot be done in time
    with subprocess.Popen(command(backend, "copy", tmp_path / "from", tmp_path / "to"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "to").exists() and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, said
    assert not (tmp_path / "to").exists()
