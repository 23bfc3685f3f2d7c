"""Subprocesses: what a child gets, how it ends, and what spawning leaves behind."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from harness import limits
from harness.loops import Run

PIPE, DEVNULL, STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT
LARGE = os.urandom(1 << 20) * 8


@pytest.fixture(autouse=True)
def no_child_left(ledger: None) -> Iterator[None]:
    """Neither running nor a zombie."""
    yield
    with contextlib.suppress(ChildProcessError):
        left = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        pytest.fail(f"a child is left: {left or 'running'}", pytrace=False)


async def output(*command: Any, data: bytes | None = None, **options: Any) -> bytes:
    """What it prints; it must end well and say nothing to stderr."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL if data is None else PIPE, stdout=PIPE, stderr=PIPE, **options)
    out, err = await process.communicate(data)
    assert (process.returncode, err) == (0, b"")
    return bytes(out)


class Recorder(asyncio.SubprocessProtocol):
    """Keeps what is called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.data += data

    def pipe_connection_lost(self, fd: int, exc: BaseException | None) -> None:
        self.calls.append(f"pipe {fd} lost")

    def process_exited(self) -> None:
        self.calls.append("exited")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("lost")
        self.over.set_result(None)


async def spawn(*command: str, **options: Any) -> tuple[Any, Recorder]:
    streams: dict[str, Any] = {"stdin": None, "stdout": None, "stderr": None, **options}
    return await asyncio.get_running_loop().subprocess_exec(Recorder, *command, **streams)


# ---- what a child gets

async def test_a_program_reads_and_prints_through_pipes() -> None:
    assert await output("cat", data=b"through") == b"through"


async def test_much_data_goes_both_ways_at_once() -> None:
    assert await output("cat", data=LARGE) == LARGE


async def test_a_shell_command_runs() -> None:
    process = await asyncio.create_subprocess_shell("echo $((20 + 3)); exit 7", stdout=PIPE)
    assert (await process.communicate(), process.returncode) == ((b"23\n", None), 7)


async def test_streams_may_be_a_descriptor_a_file_nothing_or_each_other(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"words")
    script = "cat; echo error >&2"
    with open(tmp_path / "in", "rb") as given, open(tmp_path / "out", "wb") as taken:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, stdin=given.fileno(), stdout=taken, stderr=STDOUT)
        assert await process.wait() == 0
    assert (tmp_path / "out").read_bytes() == b"wordserror\n"
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
    assert await process.communicate() == (None, b"error\n")


async def test_stdio_is_pipes_that_a_child_can_open_again() -> None:
    script = "cat /dev/stdin; echo out > /proc/self/fd/1; echo again > /dev/stdout"
    assert await output("sh", "-c", script, data=b"in\n") == b"in\nout\nagain\n"


async def test_the_options_of_popen_hold(tmp_path: Path) -> None:
    assert await output("pwd", cwd=tmp_path) == f"{tmp_path}\n".encode()
    assert await output("env", env={"A": "b"}, executable="/usr/bin/env") == b"A=b\n"
    ids = await output("sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat", start_new_session=True)
    assert len(set(ids.split())) == 1       # process, group and session
    pid, group, session = (await output("sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat",
                                        process_group=0)).split()
    assert pid == group != session
    assert await output("sh", "-c", "umask", umask=0o27) == b"0027\n"
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, pipesize=1 << 17)
    assert process.stdin is not None
    pipe = process.stdin.transport.get_extra_info("pipe")
    assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == 1 << 17
    process.stdin.close()
    assert await process.wait() == 0


async def test_a_preexec_function_runs_in_the_child() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)     # threads and fork
        assert await output("sh", "-c", "umask", preexec_fn=lambda: os.umask(0o11)) == b"0011\n"


async def test_user_and_groups_are_set() -> None:
    if os.getuid() != 0:
        pytest.skip("only root may become somebody else")
    script = "id -u; id -g; id -G"
    found = await output("sh", "-c", script, user=1234, group=2345, extra_groups=[3456])
    assert found == b"1234\n2345\n2345 3456\n"


def _masks(status: bytes) -> dict[str, int]:
    lines = dict(line.split(":\t") for line in status.decode().splitlines() if "Sig" in line[:3])
    return {name: int(value, 16) for name, value in lines.items() if name != "SigQ"}


async def test_a_child_starts_with_no_signal_blocked_ignored_or_handled() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}    # ASan's
    masks = _masks(await output("cat", "/proc/self/status", env=plain))
    assert masks["SigBlk"] == masks["SigCgt"] == 0
    pipe = 1 << (signal.SIGPIPE - 1)
    assert not masks["SigIgn"] & pipe
    masks = _masks(await output("cat", "/proc/self/status", restore_signals=False))
    assert masks["SigIgn"] & pipe


def descriptors(listing: bytes) -> set[int]:
    """Of `ls -l /proc/self/fd`: all but the one that ls reads the folder by."""
    links = [line.split(" -> ") for line in listing.decode().splitlines() if "->" in line]
    return {int(link[0].split()[-1]) for link in links if not link[1].startswith("/proc/")}


async def test_a_child_inherits_what_was_passed_and_nothing_else() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)       # by accident, as a C library would
    try:
        listing = await output("ls", "-l", "/proc/self/fd")
        assert descriptors(listing) == {0, 1, 2}
        listing = await output("ls", "-l", "/proc/self/fd", pass_fds=(writing,))
        assert descriptors(listing) == {0, 1, 2, writing}
        listing = await output("ls", "-l", "/proc/self/fd", close_fds=False)
        assert {0, 1, 2, reading} <= descriptors(listing)
        assert all(fd < 3 or os.get_inheritable(fd) for fd in descriptors(listing))
    finally:
        os.close(reading)
        os.close(writing)


class Racer:
    """One thread: spawns again and again, with descriptors coming and going all the time."""

    def __init__(self, run: Run, rounds: int) -> None:
        self.failure: str | None = None
        self._rounds = rounds
        self._thread = threading.Thread(target=self._race, args=(run,))
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _race(self, run: Run) -> None:
        try:
            run(self._spawn())
        except Exception as error:
            self.failure = repr(error)

    async def _spawn(self) -> None:
        for _ in range(self._rounds):
            reading, writing = os.pipe()
            opened = os.open("/dev/null", os.O_RDONLY)
            os.set_inheritable(opened, True)
            try:
                found = descriptors(await output("ls", "-l", "/proc/self/fd", pass_fds=(writing,)))
                if found != {0, 1, 2, writing}:
                    raise AssertionError(f"inherited {sorted(found)}, passed {writing}")
            finally:
                for fd in (reading, writing, opened):
                    os.close(fd)


@pytest.mark.time_limit(600)
def test_threads_that_spawn_and_open_at_once_leak_nothing_into_children(run: Run) -> None:
    spawns = 10_000 if os.environ.get("RINGLOOP_TEST_ALL") == "1" else 1_000
    racers = [Racer(run, int(spawns / limits.SLOWDOWN) // 4) for _ in range(4)]
    for racer in racers:
        racer.join()
    assert [racer.failure for racer in racers] == [None] * 4


# ---- what is refused

@pytest.mark.parametrize("options", [
    {"text": True}, {"universal_newlines": True}, {"encoding": "utf-8"}, {"errors": "strict"},
    {"bufsize": 1}, {"shell": True},
], ids=lambda options: "".join(options))
async def test_text_mode_and_buffers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        await asyncio.create_subprocess_exec("true", **options)


async def test_arguments_are_checked() -> None:
    loop: Any = asyncio.get_running_loop()
    with pytest.raises(ValueError, match="null byte"):
        await asyncio.create_subprocess_exec("echo", "a\0b")
    with pytest.raises(ValueError, match="null byte"):
        await asyncio.create_subprocess_exec("env", env={"A": "b\0c"})
    with pytest.raises(ValueError, match="must be a string"):
        await loop.subprocess_shell(Recorder, ["true"])
    with pytest.raises(TypeError):
        await loop.subprocess_exec(Recorder, "echo", 1)
    with pytest.raises(ValueError):
        await loop.subprocess_shell(Recorder, "true", shell=False)


# ---- failed spawns

async def test_a_failed_spawn_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"no program")
    pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE}
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        # Not searched for: a folder of $PATH that this user may not enter is another error.
        await asyncio.create_subprocess_exec("/usr/bin/no-such-program", **pipes)
    with pytest.raises(PermissionError, match="plain"):
        await asyncio.create_subprocess_exec(str(tmp_path / "plain"), **pipes)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await asyncio.create_subprocess_exec("true", cwd=tmp_path / "nowhere", **pipes)


@contextlib.contextmanager
def room_for(count: int) -> Iterator[None]:
    """Room for so many more descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open("/dev/null", os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_spawn_with_too_few_descriptors_left_fails_or_works_but_leaves_nothing() -> None:
    failed = worked = 0
    await output("true")                    # whatever is opened once is open now
    for count in range(14):
        try:
            with room_for(count):
                process = await asyncio.create_subprocess_exec(
                    "cat", stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError:
            failed += 1
        else:
            worked += 1
            assert await process.communicate(b"data") == (b"data", b"")
    assert failed and worked


# ---- cancelled spawns

@pytest.mark.parametrize("streams", [None, PIPE], ids=["bare", "pipes"])
async def test_a_spawn_that_is_cancelled_at_any_step_ends_its_child(streams: int | None) -> None:
    ended = made = 0
    for turns in range(16):
        task = asyncio.create_task(asyncio.create_subprocess_exec(
            "sleep", "100", stdin=streams, stdout=streams, stderr=streams))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            process = await task
        except asyncio.CancelledError:
            ended += 1
        else:
            made += 1
            process.kill()
            await process.wait()
    assert ended and made


@pytest.mark.parametrize("turns", range(8))
def test_a_run_that_ends_in_the_middle_of_a_spawn_ends_the_child(run: Run, turns: int) -> None:
    """asyncio hangs here in some versions: cpython#125502."""
    async def main() -> None:
        task = asyncio.create_task(asyncio.create_subprocess_exec(
            "sleep", "100", stdin=PIPE, stdout=PIPE, stderr=PIPE))
        for _ in range(turns):
            await asyncio.sleep(0)
        del task

    run(main())


async def test_a_pipe_that_cannot_be_connected_fails_the_spawn(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(asyncio.get_running_loop(), "connect_read_pipe", refuse)
    with pytest.raises(ZeroDivisionError):
        await asyncio.create_subprocess_exec("sleep", "100", stdin=PIPE, stdout=PIPE, stderr=PIPE)


# ---- exits

async def test_wait_ends_with_the_process_though_a_grandchild_holds_its_pipes() -> None:
    """CPython's rule from 3.15 on; before, wait() waited for the grandchild."""
    reading, writing = os.pipe()
    transport, protocol = await spawn("sh", "-c", "exec 3<&0; cat <&3 & exit 3", stdin=reading,
                                      stdout=PIPE)
    os.close(reading)
    assert await transport._wait() == transport.get_returncode() == 3
    await asyncio.sleep(0)
    assert protocol.calls == ["made", "exited"]
    transport.kill()        # nothing: as in asyncio, an error only after connection_lost()
    os.write(writing, b"late")
    os.close(writing)
    await protocol.over
    assert protocol.calls == ["made", "exited", "pipe 1 lost", "lost"]
    assert protocol.data == b"late"
    transport.close()


async def test_a_protocol_is_called_in_order() -> None:
    transport, protocol = await spawn("true", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    await protocol.over
    assert protocol.calls[0] == "made" and protocol.calls[-1] == "lost"
    assert sorted(protocol.calls[1:-1]) == ["exited", "pipe 0 lost", "pipe 1 lost", "pipe 2 lost"]
    transport.close()
    transport, protocol = await spawn("true")
    await protocol.over
    assert protocol.calls == ["made", "exited", "lost"]
    transport.close()


async def test_a_transport_knows_its_process() -> None:
    transport, protocol = await spawn("cat", stdin=PIPE, stdout=PIPE)
    assert isinstance(transport, asyncio.SubprocessTransport)
    process = transport.get_extra_info("subprocess")
    assert isinstance(process, subprocess.Popen)
    assert transport.get_pid() == process.pid and transport.get_returncode() is None
    assert isinstance(transport.get_pipe_transport(0), asyncio.WriteTransport)
    assert isinstance(transport.get_pipe_transport(1), asyncio.ReadTransport)
    assert transport.get_pipe_transport(2) is None
    assert "running" in repr(transport) and not transport.is_closing()
    transport.get_pipe_transport(0).close()
    await protocol.over
    assert transport.get_returncode() == process.returncode == 0
    assert "returncode=0" in repr(transport)
    transport.close()


async def test_closing_the_transport_kills_the_child() -> None:
    transport, protocol = await spawn("sleep", "100", stdout=PIPE)
    transport.close()
    transport.close()
    assert transport.is_closing()
    await protocol.over
    assert transport.get_returncode() == -signal.SIGKILL


async def test_signals_reach_the_child_and_nobody_after_its_end() -> None:
    for send, code in (("terminate", -signal.SIGTERM), ("kill", -signal.SIGKILL)):
        process = await asyncio.create_subprocess_exec("sleep", "100")
        getattr(process, send)()
        assert await process.wait() == process.returncode == code
        with pytest.raises(ProcessLookupError):
            getattr(process, send)()


async def test_a_signal_goes_to_the_process_and_not_to_its_number(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is a stranger's once the child was reaped: cpython#127049."""
    process = await asyncio.create_subprocess_exec("sleep", "100")
    with monkeypatch.context() as patch:
        patch.delattr(os, "kill")
        process.terminate()
    assert await process.wait() == -signal.SIGTERM


async def test_a_stopped_child_has_not_exited() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
    process.send_signal(signal.SIGSTOP)
    state = Path(f"/proc/{process.pid}/stat")
    while state.read_text().split()[2] != "T":
        await asyncio.sleep(0)
    assert process.returncode is None
    process.send_signal(signal.SIGCONT)
    await process.communicate(b"")
    assert process.returncode == 0


async def test_100_children_run_at_once() -> None:
    async def one(number: int) -> None:
        assert await output("sh", "-c", f"cat; exit 0; # {number}", data=b"%d" % number) == \
            b"%d" % number

    await asyncio.gather(*map(one, range(100)))


async def test_a_cancelled_wait_leaves_the_process_and_other_waits_alone() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
    cut, kept = (asyncio.create_task(process.wait()) for _ in range(2))
    await asyncio.sleep(0)
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    assert not kept.done() and process.returncode is None
    await process.communicate(b"")
    assert await kept == await process.wait() == 0


async def test_a_cancelled_communicate_leaves_a_process_that_can_be_talked_to() -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    assert process.stdin and process.stdout
    task = asyncio.create_task(process.communicate(LARGE))
    while not process.stdin.transport.get_write_buffer_size():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process.returncode is None
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    await process.stdout.read()


async def test_input_for_a_child_that_does_not_read_it_is_dropped() -> None:
    process = await asyncio.create_subprocess_exec("true", stdin=PIPE)
    assert await process.communicate(LARGE) == (None, None)
    assert process.returncode == 0


# ---- who notices the exit

def _refuse(number: int) -> Callable[..., Any]:
    def refused(*_: Any) -> int:
        raise OSError(number, os.strerror(number))
    return refused


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EMFILE],
                         ids=errno.errorcode.get)
async def test_a_thread_waits_where_pidfds_are_refused(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "pidfd_open", _refuse(number))
    assert await output("cat", data=b"through") == b"through"
    process = await asyncio.create_subprocess_exec("sleep", "100")
    process.terminate()
    assert await process.wait() == -signal.SIGTERM
    transport, protocol = await spawn("sleep", "100")
    transport.close()
    await protocol.over


async def test_a_child_that_cannot_be_watched_is_ended_by_the_failed_spawn(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "_add_reader", _refuse(errno.ENOMEM))
    with pytest.raises(OSError, match="memory"):
        await asyncio.create_subprocess_exec("sleep", "100", stdin=PIPE, stdout=PIPE)


async def test_a_child_is_signalled_by_its_number_where_pidfds_cannot(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "pidfd_send_signal", _refuse(errno.EPERM))
    process = await asyncio.create_subprocess_exec("sleep", "100")
    process.terminate()
    assert await process.wait() == -signal.SIGTERM


async def test_a_wait_in_another_thread_that_ends_meanwhile_keeps_its_return_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It used to become 255, where the thread had reaped the child and not yet said so."""
    process = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
    popen = process._transport.get_extra_info("subprocess")

    def reaped_and_then_published(pid: int) -> bool:
        popen.returncode = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return False

    monkeypatch.setattr("ringloop._subprocess._is_waitable", reaped_and_then_published)
    assert await process.wait() == 7
    assert "reaped" not in caplog.text


async def test_a_child_that_somebody_else_reaps_has_the_return_code_255(
    caplog: pytest.LogCaptureFixture
) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "100")
    process.kill()
    os.waitpid(process.pid, 0)
    assert await process.wait() == 255
    assert "reaped by somebody else" in caplog.text


async def test_a_return_code_that_popen_has_is_taken_from_there() -> None:
    transport, protocol = await spawn("sh", "-c", "exit 3")
    assert transport.get_extra_info("subprocess").wait() == 3
    await protocol.over
    assert transport.get_returncode() == 3
    transport.close()


async def test_a_thread_may_wait_for_the_popen_object_meanwhile() -> None:
    transport, protocol = await spawn("sh", "-c", "read x; exit 3", stdin=PIPE)
    wait = asyncio.to_thread(transport.get_extra_info("subprocess").wait)
    waiting = asyncio.create_task(wait)
    await asyncio.sleep(0)
    transport.get_pipe_transport(0).close()
    assert await waiting == await transport._wait() == 3
    await protocol.over
    transport.close()


async def test_children_whose_exits_are_ignored_have_the_return_code_255() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
        assert await process.wait() == 255
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_handlers_of_sigchld_go_together_with_subprocesses() -> None:
    loop = asyncio.get_running_loop()
    seen: list[str] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: seen.append("module"))
    try:
        assert await output("cat", data=b"1") == b"1"
        loop.add_signal_handler(signal.SIGCHLD, seen.append, "loop")
        assert await output("cat", data=b"2") == b"2"
        while "loop" not in seen:
            await asyncio.sleep(0)
    finally:
        loop.remove_signal_handler(signal.SIGCHLD)
        signal.signal(signal.SIGCHLD, before)
    assert seen[0] == "module"


def test_a_loop_in_another_thread_runs_subprocesses(run: Run) -> None:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(run(output("cat", data=b"there"))))
    thread.start()
    thread.join()
    assert found == [b"there"]


# ---- ends of loops

def _is_alive(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


@pytest.mark.parametrize("streams", [None, PIPE], ids=["bare", "pipes"])
def test_a_child_outlives_its_loop_until_its_transport_is_closed(
    run: Run, streams: int | None
) -> None:
    async def main() -> tuple[Any, Any]:
        return await spawn("sleep", "100", stdin=streams, stdout=streams)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        transport, protocol = run(main())
        del protocol
        process = transport.get_extra_info("subprocess")
        assert _is_alive(process.pid)
        transport.close()
        assert process.wait() == -signal.SIGKILL
        del transport, process
        gc.collect()
    # The pipes' own transports have not been closed by anybody.
    assert all("unclosed transport" in str(each.message) for each in said)


@pytest.mark.parametrize("begun", ["before the exit", "after the exit"])
def test_a_loop_that_is_closed_right_behind_wait_leaves_no_open_transport(
    run: Run, begun: str
) -> None:
    """Used to, now and then: the pipes had not ended when wait() did."""
    async def main() -> int:
        process = await asyncio.create_subprocess_exec(
            "echo", "unread", stdin=PIPE, stdout=PIPE, stderr=PIPE)
        while begun == "after the exit" and process.returncode is None:
            await asyncio.sleep(0)
        return await process.wait()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()    # what the test before left open on purpose
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(10):
            loop = run.new_loop()
            assert loop.run_until_complete(main()) == 0
            loop.close()
            gc.collect()
    assert not [str(each.message) for each in said]


def test_a_child_that_is_forgotten_with_its_loop_is_killed(run: Run) -> None:
    """asyncio raises out of a finalizer instead: "Event loop is closed"."""
    async def main() -> int:
        process = await asyncio.create_subprocess_exec("sleep", "100", stdin=PIPE, stdout=PIPE)
        return process.pid

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pid = run(main())
        gc.collect()
        with contextlib.suppress(ChildProcessError):    # the Popen object may have been quicker
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert any("unclosed transport <SubprocessTransport" in str(each.message) for each in said)


def test_a_child_without_a_pidfd_is_reaped_after_its_loop(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pidfd_open", _refuse(errno.ENOSYS))

    async def main() -> tuple[Any, Any]:
        return await spawn("sleep", "100")

    transport, _ = run(main())
    transport.close()
    for thread in threading.enumerate():
        if thread.name == f"rl-wait-{transport.get_pid()}":
            thread.join()
    assert transport.get_extra_info("subprocess").returncode == -signal.SIGKILL


def test_debug_mode_tells_of_spawn_exit_and_kill(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await output("true")
        transport, protocol = await spawn("sleep", "100")
        transport.close()
        await protocol.over

    with caplog.at_level("DEBUG", "asyncio"):
        run(main(), debug=True)
    assert "process 'true' created: pid" in caplog.text
    assert "exited with return code 0" in caplog.text
    assert "Close running child process: kill" in caplog.text


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="child watchers have gone")
async def test_a_child_watcher_that_is_not_active_forbids_subprocesses() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_child_watcher(asyncio.SafeChildWatcher())
        try:
            with pytest.raises(RuntimeError, match="not active"):
                await asyncio.create_subprocess_exec("true")
        finally:
            asyncio.set_child_watcher(None)     # type: ignore[arg-type]
