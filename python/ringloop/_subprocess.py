"""Subprocesses: the transport of one child, and the hook through which the loop makes it.

subprocess.Popen spawns: with vfork, so that the size of this process does not count, but with fork
if preexec_fn, user, group or extra_groups is given. A poll of the child's pidfd on the ring notices
the exit, without a child watcher, a SIGCHLD handler or a thread; only where the kernel or a seccomp
filter refuses pidfds does a thread wait. Either way the loop's thread reaps the child and publishes
the return code in the same step: no signal goes to a pid that may be somebody else's by now.

Thread: the loop's, which may be any thread. Lifetime: a running child keeps its transport alive.
Cancellation: a cancelled spawn kills the child and waits for its end. Errors: as subprocess.Popen
and asyncio; a failed spawn leaves nothing open.
"""

from __future__ import annotations

import collections
import errno
import os
import signal
import subprocess
import sys
import threading
from asyncio import base_subprocess, events, futures, transports
from collections.abc import Callable
from typing import Any

_base: Any = base_subprocess  # its private names are not typed
_logger = _base.logger

# What somebody else has reaped: asyncio's code for "gone, nobody knows how".
_UNKNOWN_EXIT = 255

# Pipes that nobody else holds end within so many turns after the process. wait() lets them: who
# closes the loop right behind it leaves no open transport.
_TURNS_FOR_PIPES = 16


class SubprocessMixin:
    """The part of EventLoop that starts subprocesses: a hook of BaseEventLoop.subprocess_exec()."""

    async def _make_subprocess_transport(
        self: Any,
        protocol: Any,
        args: Any,
        shell: bool,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: int,
        extra: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SubprocessTransport:
        _check_watcher()
        waiter = self.create_future()
        transport = SubprocessTransport(
            self, protocol, args, shell, stdin, stdout, stderr, bufsize, waiter, extra, **kwargs
        )
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            transport.close()
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport


def _check_watcher() -> None:
    """An inactive child watcher that somebody has set forbids subprocesses, as in asyncio.

    Ours needs none. Watchers ended with CPython 3.13.
    """
    policy = getattr(events, "_event_loop_policy", None)
    watcher = getattr(policy, "_watcher", None)
    if watcher is None:
        return
    with watcher as entered:
        # CPython 3.11 asks what __enter__() gave.
        if not (watcher if sys.version_info >= (3, 12) else entered).is_active():
            raise RuntimeError(
                "the child watcher that was set with asyncio.set_child_watcher() is not active"
            )


class SubprocessTransport(base_subprocess.BaseSubprocessTransport):
    """One child: asyncio's transport, with its life decided by this file on every CPython.

    wait() ends with the process alone, also where grandchildren hold its pipes (CPython 3.15's
    rule); connection_lost() comes after the process and all pipes have gone.
    """

    _extra: dict[str, Any]
    _loop: Any
    _proc: Any
    _protocol: Any

    def __init__(
        self,
        loop: Any,
        protocol: Any,
        args: Any,
        shell: bool,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: int,
        waiter: Any = None,
        extra: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        # Not BaseSubprocessTransport's: its task, which connects the pipes, is out of reach.
        transports.SubprocessTransport.__init__(self, extra)
        self._closed = True  # until there is something to close
        self._loop = loop
        self._protocol = protocol
        self._proc = None
        self._pid: int | None = None
        self._returncode: int | None = None
        self._exit_waiters: list[Any] = []
        self._pending_calls: Any = collections.deque()
        streams = enumerate((stdin, stdout, stderr))
        self._pipes: dict[int, Any] = {fd: None for fd, wish in streams if wish == subprocess.PIPE}
        self._unconnected: list[int] = sorted(self._pipes)
        self._finished = False
        self._settled = False  # whether wait() may end
        self._connecting: Any = None
        self._pidfd = -1
        self._spawn(
            args=args,
            shell=shell,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=bufsize,
            **kwargs,
        )
        self._closed = False
        self._pid = self._proc.pid
        self._extra["subprocess"] = self._proc
        if loop.get_debug():
            program = args if isinstance(args, (bytes, str)) else args[0]
            _logger.debug("process %r created: pid %s", program, self._pid)
        self._connect(waiter)

    def _spawn(self, **arguments: Any) -> None:
        if sys.version_info < (3, 11, 4):
            _ask_for_descriptors(arguments)
        self._proc = subprocess.Popen(universal_newlines=False, **arguments)
        try:
            self._watch()
        except BaseException:
            self._release_pidfd()
            self._proc.kill()
            self._proc.wait()
            self._close_unconnected()
            raise

    # ---- the exit

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._proc.pid)
        except OSError:  # no such call, forbidden, or no descriptor left
            self._watch_by_thread()
        else:
            self._loop._add_reader(self._pidfd, self._on_exit)

    def _watch_by_thread(self) -> None:
        pid = self._proc.pid
        threading.Thread(
            target=_wait_elsewhere,
            args=(self._loop, pid, self._on_exit, self._proc.poll),
            name=f"rl-wait-{pid}",
            daemon=True,
        ).start()

    def _on_exit(self) -> None:
        if self._returncode is not None:
            return
        returncode = self._reap()
        self._release_pidfd()
        if returncode is None:  # held back by a debugger, or by another thread's wait()
            self._watch_by_thread()
        else:
            self._process_exited(returncode)

    def _reap(self) -> int | None:
        """The return code of the child, which has exited; None if it cannot be had yet."""
        proc = self._proc
        stolen = proc.returncode is None and not _is_waitable(proc.pid)
        returncode: int | None = proc.poll()  # under Popen's own lock, and known to it at once
        # 0: Popen's word for "not found", too. Another code came from a wait() in another thread.
        if stolen and returncode == 0:
            _logger.warning(
                "child process pid %d was reaped by somebody else: "
                "its return code is unknown, and reported as %d",
                proc.pid,
                _UNKNOWN_EXIT,
            )
            proc.returncode = returncode = _UNKNOWN_EXIT
        return returncode

    def _release_pidfd(self) -> None:
        if self._pidfd >= 0:
            pidfd, self._pidfd = self._pidfd, -1
            self._loop._remove_reader(pidfd)
            os.close(pidfd)

    def _process_exited(self, returncode: int) -> None:
        if self._loop.get_debug():
            _logger.info("%r exited with return code %r", self, returncode)
        self._returncode = returncode
        self._call(self._protocol.process_exited)
        self._try_finish()
        self._settle_soon()

    def _settle_soon(self) -> None:
        """Once the process has ended and its pipes are connected, or never will be."""
        if self._returncode is not None and self._connecting is None:
            self._settle(_TURNS_FOR_PIPES if self._pending_calls is None else 0)

    def _settle(self, turns: int) -> None:
        """Ends all wait()s after so many turns of the loop."""
        if turns > 0 and not self._settled:
            self._loop.call_soon(self._settle, turns - 1)
            return
        self._settled = True
        waiters, self._exit_waiters = self._exit_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(self._returncode)

    async def _wait(self) -> int:
        if not self._settled:
            waiter = self._loop.create_future()
            self._exit_waiters.append(waiter)
            await waiter
        assert self._returncode is not None
        return self._returncode

    def send_signal(self, signal: int) -> None:
        """Sends it to the child; nothing happens if the child has exited.

        ProcessLookupError once connection_lost() was called.
        """
        self._check_proc()
        if self._proc.returncode is None:
            _send_signal(self._pidfd, self._proc.pid, signal)

    def terminate(self) -> None:
        """send_signal(SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """send_signal(SIGKILL)."""
        self.send_signal(signal.SIGKILL)

    # ---- the pipes

    def _connect(self, waiter: Any) -> None:
        if self._unconnected:
            self._connecting = self._loop.create_task(self._connect_pipes())
            self._connecting.add_done_callback(lambda task: self._on_connected(task, waiter))
        else:
            self._announce()
            if waiter is not None:
                set_result: Any = futures._set_result_unless_cancelled  # type: ignore[attr-defined]
                self._loop.call_soon(set_result, waiter, None)

    async def _connect_pipes(self) -> None:  # type: ignore[override]  # the waiter is served above
        while self._unconnected:
            fd = self._unconnected[0]
            pipe = (self._proc.stdin, self._proc.stdout, self._proc.stderr)[fd]
            connect = self._loop.connect_read_pipe if fd else self._loop.connect_write_pipe
            kind = _base.ReadSubprocessPipeProto if fd else _base.WriteSubprocessPipeProto
            made: list[Any] = []

            def make() -> Any:
                made.append(kind(self, fd))
                return made[0]

            try:
                _, self._pipes[fd] = await connect(make, pipe)
            except BaseException as error:
                if made and not isinstance(error, Exception):
                    self._unconnected.pop(0)  # its transport was made, and closes it
                raise
            self._unconnected.pop(0)

    def _pipe_connection_lost(self, fd: int, exc: BaseException | None) -> None:
        protocol = self._protocol
        super()._pipe_connection_lost(fd, exc)
        if fd == 0 and exc is not None and sys.version_info < (3, 11, 7):
            self._call(_expect_nobody_to_ask, protocol)

    def _on_connected(self, task: Any, waiter: Any) -> None:
        self._connecting = None
        self._close_unconnected()
        if task.cancelled():
            error = None
        else:
            error = task.exception()
            if error is None:
                self._announce()
        self._settle_soon()
        if waiter is None or waiter.done():
            return
        if task.cancelled():
            waiter.cancel()
        elif error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(None)

    def _announce(self) -> None:
        self._loop.call_soon(self._protocol.connection_made, self)
        calls, self._pending_calls = self._pending_calls, None
        for callback, arguments in calls:
            self._loop.call_soon(callback, *arguments)

    def _close_unconnected(self) -> None:
        pipes = (self._proc.stdin, self._proc.stdout, self._proc.stderr)
        while self._unconnected:
            pipes[self._unconnected.pop()].close()

    # ---- the end

    def _try_finish(self) -> None:
        if self._returncode is None or self._finished:
            return
        if all(pipe is not None and pipe.disconnected for pipe in self._pipes.values()):
            self._finished = True
            self._call(self._call_connection_lost, None)

    def _call_connection_lost(self, exc: Any) -> None:
        try:
            self._protocol.connection_lost(exc)
        finally:
            self._settle(0)
            self._loop = self._proc = self._protocol = None

    def close(self) -> None:
        """Closes the pipes and kills the child if it is running. Its exit is still awaited."""
        if self._closed:
            return
        self._closed = True
        if self._connecting is not None and not self._loop.is_closed():
            self._connecting.cancel()
        elif self._unconnected:
            self._close_unconnected()
        for pipe in self._pipes.values():
            if pipe is not None:
                _close_pipe(pipe.pipe, self._loop)
        if self._proc is None:
            return
        if self._returncode is None and self._proc.poll() is None:
            if self._loop.get_debug():
                _logger.warning("Close running child process: kill %r", self)
            try:
                self._proc.kill()
            except PermissionError:
                _logger.debug("%r may not be killed: it has changed its user", self)
        if self._loop.is_closed():  # nobody waits for the exit any more
            self._release_pidfd()


def _expect_nobody_to_ask(protocol: Any) -> None:
    """Of a broken stdin: early 3.11 logged its error unless somebody waited for its end."""
    closed = getattr(protocol, "_stdin_closed", None)
    if closed is not None:
        closed._log_traceback = False


def _close_pipe(pipe: Any, loop: Any) -> None:
    if loop is None or not loop.is_closed():
        pipe.close()
    else:  # the transport's close() would need the loop, which has nothing in flight
        pipe.get_extra_info("pipe").close()


def _is_waitable(pid: int) -> bool:
    """Whether the child is still there to be reaped; it is not reaped by this."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _wait_elsewhere(loop: Any, pid: int, on_exit: Callable[[], None], reap: Any) -> None:
    """The thread of a child without a pidfd. Reaping is left to the loop's thread."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        pass  # reaped by somebody else: on_exit() finds out
    try:
        loop.call_soon_threadsafe(on_exit)
    except RuntimeError:  # the loop was closed meanwhile: no zombie stays behind
        reap()


def _send_signal(pidfd: int, pid: int, number: int) -> None:
    try:
        if pidfd >= 0:
            try:
                signal.pidfd_send_signal(pidfd, number)
                return
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EPERM):  # refused by a filter, perhaps
                    raise
        # The pid is still the child's: only this thread reaps it.
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has exited, as in asyncio


def _ask_for_descriptors(arguments: dict[str, Any]) -> None:
    """Raises OSError where Popen would: before 3.11.4 it left the pipes open that it had made until
    one failed."""
    streams = [arguments.get(name) for name in ("stdin", "stdout", "stderr")]
    wanted = 2 * (1 + streams.count(subprocess.PIPE)) + (subprocess.DEVNULL in streams)
    held: list[int] = []
    try:
        while len(held) < wanted:
            held.append(os.eventfd(0))
    finally:
        for fd in held:
            os.close(fd)
