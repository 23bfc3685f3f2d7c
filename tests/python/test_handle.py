"""ringloop.SharedHandle: awaits that a C extension's threads, other processes and what is left of
them complete. The extension and the programs are compiled against the one header that the package
ships, and link nothing."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ringloop
from harness import accounts, compiled
from harness.loops import Run

EXTENSION = r"""
#include <Python.h>
#include <ringloop/handle.h>
#include <pthread.h>

struct work { ringloop_handle* handle; ringloop_token* tokens; Py_ssize_t count; };

static void* complete_all(void* context) {  /* on a thread that knows no Python */
    struct work* work = (struct work*)context;
    Py_ssize_t i;
    for (i = 0; i < work->count; ++i)
        if (ringloop_handle_complete_int(work->handle, work->tokens[i], i) != 0) break;
    free(work->tokens);
    free(work);
    return NULL;
}
static PyObject* run(PyObject* self, PyObject* args) {  /* run(capsule, tokens): a thread to join */
    PyObject *capsule, *tokens;
    pthread_t thread;
    struct work* work;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &tokens)) return NULL;
    work = (struct work*)malloc(sizeof *work);
    work->handle = ringloop_handle_of(capsule);
    if (work->handle == NULL) return NULL;
    work->count = PyList_Size(tokens);
    work->tokens = (ringloop_token*)calloc((size_t)work->count + 1, sizeof(ringloop_token));
    for (i = 0; i < work->count; ++i)
        work->tokens[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(tokens, i));
    pthread_create(&thread, NULL, complete_all, work);
    return PyLong_FromUnsignedLong((unsigned long)thread);
}
static PyObject* join(PyObject* self, PyObject* thread) {  /* before the capsule is given up */
    const pthread_t which = (pthread_t)PyLong_AsUnsignedLong(thread);
    Py_BEGIN_ALLOW_THREADS pthread_join(which, NULL);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}
static PyObject* leave(PyObject* self, PyObject* thread) {  /* instead: it ends whenever */
    pthread_detach((pthread_t)PyLong_AsUnsignedLong(thread));
    Py_RETURN_NONE;
}
static PyObject* put(PyObject* self, PyObject* args) {  /* put(capsule, token, kind): result */
    PyObject* capsule;
    unsigned long long token;
    const char* kind;
    ringloop_handle* handle;
    int result;
    if (!PyArg_ParseTuple(args, "OKs", &capsule, &token, &kind)) return NULL;
    if ((handle = ringloop_handle_of(capsule)) == NULL) return NULL;
    switch (kind[0]) {
        case 'n': result = ringloop_handle_complete(handle, token); break;
        case 'i': result = ringloop_handle_complete_int(handle, token, INT64_MIN); break;
        case 'd': result = ringloop_handle_complete_double(handle, token, 0.5); break;
        case 'b': result = ringloop_handle_complete_bytes(handle, token, kind, 3); break;
        case 'w': result = ringloop_handle_wanted(handle, token); break;
        case 'a': result = ringloop_handle_alive(handle); break;
        case '?': result = ringloop_handle_put(handle, token, 0, (enum ringloop_kind)99, "", 0);
            break;
        default: result = ringloop_handle_fail(handle, token, ENOENT);
    }
    return PyLong_FromLong(result);
}
static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {"put", put, METH_VARARGS, NULL},
                                {"join", join, METH_O, NULL}, {"leave", leave, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "producer", NULL, -1, methods};
PyMODINIT_FUNC PyInit_producer(void) { return PyModule_Create(&definition); }
"""

# producer MODE MEMORY WAKE ALIVE LANE: completes the tokens that come by its standard input.
PROGRAM = r"""
#include <ringloop/handle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void leave_half_a_record(ringloop_handle* handle, ringloop_token token) {
    ringloop_lane* lane = handle->heads + ringloop_token_lane(token);
    const uint64_t position = __atomic_fetch_add(&lane->tail, 1u, __ATOMIC_SEQ_CST);
    handle->records[(uint64_t)ringloop_token_lane(token) * handle->slots +
                    (position & (handle->slots - 1))].token = token;
    raise(SIGKILL);
}
static void scribble(ringloop_handle* handle) {
    unsigned char* bytes = (unsigned char*)(void*)handle->header;
    int round;
    uint64_t i;
    for (round = 0; round < 300; ++round) {
        for (i = 0; i < handle->size; ++i) bytes[i] = (unsigned char)(rand() >> 7);
        handle->header->asleep = 1;
        (void)ringloop_handle_wake(handle);
    }
    raise(SIGKILL);
}
int main(int count, char** words) {
    ringloop_handle handle;
    ringloop_token token;
    int64_t number = 0;
    int error;
    if (count != 6) return 2;
    do {  /* busy: the loop has not noticed yet that the lane's process has ended */
        error = ringloop_handle_attach(&handle, atoi(words[2]), atoi(words[3]), atoi(words[4]),
                                       (unsigned)atoi(words[5]));
    } while (error == -EBUSY && poll(NULL, 0, 1) == 0);
    if (error != 0) return -error;
    while (fread(&token, sizeof token, 1, stdin) == 1) {
        if (words[1][0] == 'h' && number == 2) leave_half_a_record(&handle, token);
        if (words[1][0] == 's') scribble(&handle);
        error = ringloop_handle_complete_int(&handle, token, number++);
        if (error != 0) return -error;
    }
    ringloop_handle_detach(&handle);
    return 0;
}
"""


@pytest.fixture(scope="module")
def extension() -> Any:
    return compiled.module(EXTENSION, "producer")


class Producer:
    """The C program as a process; its tokens go to its standard input."""

    def __init__(self, handle: Any, mode: str = "complete", lane: int = 0) -> None:
        words = [compiled.program(PROGRAM), mode, *map(str, handle.share()), str(lane)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=handle.share())

    def send(self, *tokens: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack(f"{len(tokens)}Q", *tokens))
        self.process.stdin.flush()


@contextlib.contextmanager
def producing(*words: Any, **named: Any) -> Iterator[Producer]:
    producer = Producer(*words, **named)
    try:
        yield producer
    finally:
        producer.process.kill()
        producer.process.communicate()


def mapped(handle: Any) -> mmap.mmap:
    return mmap.mmap(handle.share().memory, 0)


# ---- one process

def test_the_package_ships_the_header() -> None:
    assert (Path(ringloop.get_include()) / "ringloop" / "handle.h").is_file()


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_the_header_is_cpp_too(standard: str) -> None:
    assert compiled.program(PROGRAM, standard).is_file()


def test_an_extension_completes_awaits_from_its_threads_in_their_order(
    extension: Any, on_host: Run
) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(lanes=4, slots=512) as handle:
            capsule, threads = handle.capsule, []
            arrived: list[list[int]] = [[], [], [], []]
            pairs = [[handle.submit(lane) for _ in range(512)] for lane in range(4)]
            for lane, some in enumerate(pairs):
                for _, each in some:
                    each.add_done_callback(
                        lambda done, seen=arrived[lane]: seen.append(done.result()))
                threads.append(extension.run(capsule, [token for token, _ in some]))
            for some in pairs:
                await some[-1][1]
            await asyncio.sleep(0)          # an await that is done runs before the callbacks
            assert arrived == [list(range(512))] * 4
            counted = handle.counters()
            assert counted["completions"] == 2048
            assert (counted["strays"], counted["abandoned"], counted["reserved"]) == (0, 0, 0)
            assert counted["wakes"] <= counted["sleeps"]
            for thread in threads:
                extension.join(thread)

    on_host(main())


def test_thousands_of_completions_take_few_wake_ups(extension: Any, on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(slots=8192) as handle:
            pairs = [handle.submit() for _ in range(8192)]
            for _, each in pairs:
                each.add_done_callback(lambda _: None)
            capsule = handle.capsule
            thread = extension.run(capsule, [token for token, _ in pairs])
            assert await pairs[-1][1] == 8191
            extension.join(thread)
            assert handle.counters()["wakes"] <= 8192 / 8

    on_host(main())


def test_a_completion_carries_none_int_float_bytes_or_an_error(
    extension: Any, on_host: Run
) -> None:
    async def main() -> None:
        with ringloop.SharedHandle() as handle:
            for kind, value in {"n": None, "i": -2**63, "d": 0.5, "bcd": b"bcd"}.items():
                token, result = handle.submit()
                assert extension.put(handle.capsule, token, kind) == 0
                assert await result == value
            token, result = handle.submit()
            assert extension.put(handle.capsule, token, "error") == 0
            with pytest.raises(FileNotFoundError):
                await result
            token, result = handle.submit()
            assert extension.put(handle.capsule, token, "?") == 0
            with pytest.raises(OSError, match="unknown kind 99"):
                await result

    on_host(main())


async def test_a_completion_that_is_there_costs_no_turn(extension: Any) -> None:
    with ringloop.SharedHandle() as handle:
        token, result = handle.submit()
        extension.put(handle.capsule, token, "i")
        while handle.counters()["completions"] == 0:
            await asyncio.sleep(0)
        turned: list[int] = []
        asyncio.get_running_loop().call_soon(turned.append, 1)
        assert await result == -2**63
        assert not turned


def test_a_cancelled_await_ends_at_once_and_its_completion_is_dropped(
    extension: Any, on_host: Run
) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(slots=1) as handle:
            token, result = handle.submit()
            assert extension.put(handle.capsule, token, "wanted") == 1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await result
            assert extension.put(handle.capsule, token, "wanted") == 0
            with pytest.raises(BlockingIOError, match="all 1 slots of lane 0"):
                handle.submit()
            assert extension.put(handle.capsule, token, "none") == 0
            while handle.counters()["abandoned"] == 0:
                await asyncio.sleep(0)
            second, result = handle.submit()
            assert extension.put(handle.capsule, token, "none") == 0     # the old token again
            assert extension.put(handle.capsule, second, "int") == -errno.ENOBUFS
            while handle.counters()["strays"] == 0:
                await asyncio.sleep(0)
            assert extension.put(handle.capsule, second, "int") == 0
            assert await result == -2**63

    on_host(main())


async def test_an_await_that_is_dropped_frees_its_slot_with_its_completion(extension: Any) -> None:
    with ringloop.SharedHandle(slots=1) as handle:
        token = handle.submit()[0]
        gc.collect()
        assert extension.put(handle.capsule, token, "wanted") == 0
        extension.put(handle.capsule, token, "none")
        while handle.counters()["reserved"]:
            await asyncio.sleep(0)
        assert handle.counters()["abandoned"] == 1


def test_close_ends_what_is_pending_and_refuses_what_comes(extension: Any, on_host: Run) -> None:
    async def main() -> None:
        handle = ringloop.SharedHandle()
        capsule = handle.capsule
        (token, result), (_, late) = handle.submit(), handle.submit()
        waiting = asyncio.ensure_future(result)
        await asyncio.sleep(0)
        handle.close()
        handle.close()
        with pytest.raises(ConnectionAbortedError, match="closed before"):
            await waiting
        with pytest.raises(ConnectionAbortedError, match="closed before"):
            await late
        for call in (handle.submit, handle.share):
            with pytest.raises(RuntimeError, match="the shared handle is closed"):
                call()
        assert extension.put(capsule, token, "none") == -errno.EPIPE
        assert extension.put(capsule, token, "alive") == 0
        assert repr(handle) == "<ringloop.SharedHandle closed>"
        del handle, waiting, result, late
        assert extension.put(capsule, token, "none") == -errno.EPIPE

    on_host(main())


def test_the_end_of_its_loop_closes_it(extension: Any, on_host: Run) -> None:
    async def main() -> tuple[Any, ...]:
        handle = ringloop.SharedHandle()
        (token, started), (_, idle) = handle.submit(), handle.submit()
        started.add_done_callback(lambda _: None)
        return handle, token, started, idle

    handle, token, started, idle = on_host(main())
    assert handle.closed and started.cancelled() and not idle.done()
    assert extension.put(handle.capsule, token, "none") == -errno.EPIPE

    async def after() -> None:
        with pytest.raises(RuntimeError, match="its loop was closed"):
            handle.submit()
        with pytest.raises(ConnectionAbortedError):
            await idle

    on_host(after())
    handle.close()


def test_its_awaits_belong_to_one_loop(extension: Any, on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle() as handle:
            token, result = handle.submit()
            failed: list[BaseException] = []

            async def elsewhere() -> None:
                try:
                    await handle.submit()[1]
                except RuntimeError as error:
                    failed.append(error)

            thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
            thread.start()
            await asyncio.to_thread(thread.join)
            assert "a handle of its own" in str(failed[0])
            extension.put(handle.capsule, token, "none")
            await result

    on_host(main())


def test_it_needs_a_running_loop() -> None:
    with ringloop.SharedHandle() as handle:
        with pytest.raises(RuntimeError, match="no running event loop"):
            handle.submit()


def test_one_that_nobody_closed_warns_and_ends(on_host: Run) -> None:
    async def main() -> None:
        handle = ringloop.SharedHandle()
        result = handle.submit()[1]
        with pytest.warns(ResourceWarning, match="unclosed <ringloop.SharedHandle lanes=1"):
            del handle
        with pytest.raises(ConnectionAbortedError):
            await result

    on_host(main())


@pytest.mark.parametrize(("named", "text"), [
    ({"lanes": 0}, "lanes must be 1 to 256, not 0"),
    ({"lanes": 257}, "lanes must be 1 to 256, not 257"),
    ({"slots": 0}, "slots must be a power of two up to 65536, not 0"),
    ({"slots": -1}, "slots must be a power of two up to 65536, not -1"),
    ({"slots": 65537}, "slots must be a power of two up to 65536, not 131072")])
def test_a_shape_that_cannot_be_is_refused(named: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ringloop.SharedHandle(**named)


async def test_other_bad_arguments_are_named() -> None:
    with ringloop.SharedHandle(lanes=2, slots=3) as handle:
        assert (handle.lanes, handle.slots) == (2, 4)
        with pytest.raises(ValueError, match="no lane 2: the handle has 2"):
            handle.submit(2)
        with pytest.raises(ValueError, match="no lane -1"):
            handle.submit(lane=-1)
        with pytest.raises(TypeError, match="at most one argument, lane"):
            handle.submit(1, 2)                 # type: ignore[call-arg]
        with pytest.raises(ValueError, match="0 is no process's number"):
            handle.watch(0, 0)


async def test_a_refusal_leaves_no_descriptor_open() -> None:
    """A lane that is no number cost three; a second __init__() two, and share() gave its memory."""
    with ringloop.SharedHandle() as handle:
        shared = handle.share()
        before = accounts.descriptors()
        for lane in ("0", None, 2**80):
            with pytest.raises((TypeError, OverflowError)):
                ringloop.SharedHandle.attach(shared, lane)          # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match="called before"):
            handle.__init__()                       # type: ignore[misc]
        assert accounts.descriptors() == before and handle.share() == shared
        for slots in (2.5, None):
            with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                ringloop.SharedHandle(slots=slots)  # type: ignore[arg-type]


async def test_an_eventfd_that_was_closed_behind_its_back_ends_its_awaits() -> None:
    with ringloop.SharedHandle() as handle:
        result = asyncio.ensure_future(handle.submit()[1])
        await asyncio.sleep(0)
        wake = handle.share().wake
        copy = os.dup(wake)
        os.close(wake)
        os.eventfd_write(copy, 1)
        with pytest.raises(OSError, match="closed behind the handle's back") as caught:
            await result
        assert caught.value.errno == errno.EBADF
        os.dup2(copy, wake, inheritable=False)      # for the handle to close
        os.close(copy)


AT_EXIT = """
import asyncio, importlib.util, ringloop, sys
asyncio.base_events.logger.disabled = True     # 65,536 calls may be slow, in debug mode
spec = importlib.util.spec_from_file_location("producer", sys.argv[1])
producer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(producer)
async def main():
    handle = ringloop.SharedHandle(slots=65536)
    pairs = [handle.submit() for _ in range(65536)]
    for _, result in pairs: result.add_done_callback(id)
    sys.kept = handle, handle.capsule   # as who has the thread keeps it, until it all ends
    producer.leave(producer.run(sys.kept[1], [token for token, _ in pairs]))
ringloop.run(main())
"""


def test_a_thread_that_still_completes_when_the_interpreter_ends_harms_nobody(
    extension: Any
) -> None:
    # What is kept until the end would be told as a leak, in debug mode.
    done = subprocess.run([sys.executable, "-c", AT_EXIT, extension.__file__],
                          capture_output=True, text=True, timeout=50, check=False,
                          env=os.environ | {"RINGLOOP_LEAKS": "0"})
    assert (done.returncode, done.stderr) == (0, "")


# ---- a HandleProducer

def test_a_producer_in_python_says_what_is_wrong(on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(lanes=2, slots=2) as handle:
            with ringloop.SharedHandle.attach(handle.share(), lane=1) as producer:
                token, result = handle.submit(1)
                other = handle.submit(0)[0]
                assert producer.alive() and producer.wanted(token)
                assert not any(map(producer.wanted, (other, 1 << 16 | 1)))  # never made
                for bad in (other, 0xffff, 2**64 - 2):
                    with pytest.raises(ValueError, match=f"{bad} is no token"):
                        producer.complete(bad)
                with pytest.raises(TypeError, match="not str"):
                    producer.complete(token, "text")        # type: ignore[arg-type]
                with pytest.raises(OverflowError):
                    producer.complete(token, 2**63)
                with pytest.raises(ValueError, match="at most 40 bytes"):
                    producer.complete(token, bytes(41))
                with pytest.raises(ValueError, match="0 is no errno"):
                    producer.fail(token, 0)
                producer.complete(token, bytes(40))
                producer.complete(token)
                with pytest.raises(OSError, match="complete each token once"):
                    producer.complete(token)
                assert await result == bytes(40)
                token, result = handle.submit(1)
                producer.fail(token, errno.ENOSPC)
                with pytest.raises(OSError, match="No space left"):
                    await result
            with pytest.raises(ValueError, match="closed"):
                producer.complete(token)

    on_host(main())


async def test_what_is_no_handle_cannot_be_attached() -> None:
    attach = ringloop.SharedHandle.attach
    with ringloop.SharedHandle() as handle:
        shared = handle.share()
        with pytest.raises(OSError, match="no such lane") as caught:
            attach(shared, 1)
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(OSError):
            attach((shared.memory, shared.wake, 99999))
        first = attach(shared)
        with pytest.raises(OSError, match="another process has that lane"):
            attach(shared)
        first.close()
        attach(shared).close()
        with mapped(handle) as memory:
            for offset, kind in ((0, errno.EPROTO), (4, errno.EPROTONOSUPPORT), (8, errno.EPROTO),
                                 (12, errno.EPROTO)):
                kept = memory[offset]
                memory[offset] = kept ^ 64
                with pytest.raises(OSError) as caught:
                    attach(shared)
                assert caught.value.errno == kind
                memory[offset] = kept
        unsealed = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
        os.ftruncate(unsealed, 4096)
        for memory_fd in (unsealed, shared.wake):
            with pytest.raises(PermissionError, match="not sealed memory"):
                attach((memory_fd, shared.wake, shared.alive))
        os.close(unsealed)
        kept_fds = tuple(map(os.dup, shared))
    with pytest.raises(BrokenPipeError, match="was closed"):
        attach(kept_fds)        # type: ignore[arg-type]
    for fd in kept_fds:
        os.close(fd)


# ---- processes

def test_another_process_completes_awaits_over_sealed_memory(on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(lanes=2, slots=1024) as handle, producing(handle, lane=1) as it:
            for _ in range(3):
                pairs = [handle.submit(1) for _ in range(1024)]
                it.send(*(token for token, _ in pairs))
                numbers = [await result for _, result in pairs]
                assert numbers == list(range(numbers[0], numbers[0] + 1024))
            assert numbers[-1] == 3 * 1024 - 1
            assert handle.counters()["wakes"] <= handle.counters()["sleeps"]

    on_host(main())


def test_a_killed_producer_ends_its_awaits_and_another_may_follow(on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle(lanes=2) as handle:
            with producing(handle, lane=1) as it:
                (token, first), (_, second), (_, idle) = (handle.submit(1) for _ in range(3))
                here = ringloop.SharedHandle.attach(handle.share(), 0)
                untouched_token, untouched = handle.submit(0)
                waiting = [asyncio.ensure_future(each) for each in (second, untouched)]
                it.send(token)
                assert await first == 0
                os.kill(it.process.pid, signal.SIGKILL)
                with pytest.raises(ConnectionResetError, match=f"lane 1 .process {it.process.pid}"):
                    await waiting[0]
                with pytest.raises(ConnectionResetError):
                    await idle
                with pytest.raises(ConnectionResetError, match="attach another one"):
                    handle.submit(1)
                here.complete(untouched_token, 7)
                assert await waiting[1] == 7
                here.close()
            with producing(handle, lane=1) as it:
                while True:
                    with contextlib.suppress(ConnectionResetError):
                        token, result = handle.submit(1)
                        break
                    await asyncio.sleep(0.001)
                it.send(token)
                assert await result == 0

    on_host(main())


def test_a_killed_producers_successor_is_not_taken_for_it(on_host: Run) -> None:
    """One that attached and died between two turns of the loop was noticed too late: its end ended
    what had been submitted for the next one, which found the lane taken."""
    async def main() -> None:
        with ringloop.SharedHandle() as handle:
            handle.submit()[1].cancel()
            with producing(handle) as it:
                with mapped(handle) as memory:
                    while memory[136:140] == bytes(4):      # lane 0's owner
                        os.sched_yield()
            with producing(handle) as it:
                handle.watch(0, it.process.pid)
                token, result = handle.submit()
                it.send(token)
                assert await result == 0

    on_host(main())


async def test_half_a_record_is_never_delivered() -> None:
    with ringloop.SharedHandle(slots=8) as handle:
        with producing(handle, "half") as it:
            pairs = [handle.submit() for _ in range(4)]
            it.send(*(token for token, _ in pairs))
            found = await asyncio.gather(*(result for _, result in pairs), return_exceptions=True)
            assert found[:2] == [0, 1]
            assert [type(each) for each in found[2:]] == [ConnectionResetError] * 2
        with producing(handle) as it:
            handle.watch(0, it.process.pid)
            for number in range(20):
                token, result = handle.submit()
                it.send(token)
                assert await result == number
        assert handle.counters()["strays"] == 0


def test_a_producer_that_writes_rubbish_everywhere_harms_its_awaits_at_most(on_host: Run) -> None:
    async def main() -> None:
        with (ringloop.SharedHandle(lanes=3, slots=64) as handle,
              producing(handle, "scribble") as it):
            handle.watch(0, it.process.pid)
            pairs = [handle.submit() for _ in range(64)]
            waiting = asyncio.gather(*(result for _, result in pairs), return_exceptions=True)
            it.send(pairs[0][0])
            assert len(await waiting) == 64

    on_host(main())


async def test_a_producer_that_cannot_be_watched_is_reported() -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    with ringloop.SharedHandle() as handle:
        token, result = handle.submit()
        with producing(handle) as it:
            with mapped(handle) as memory:
                while memory[136:140] == bytes(4):      # lane 0's owner
                    os.sched_yield()
            spare = os.dup(0)
            os.close(spare)
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, limits[1]))
            try:
                while not reports:
                    await asyncio.sleep(0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert f"process {it.process.pid}, the producer of lane 0" in reports[0]["message"]
            assert reports[0]["exception"].errno == errno.EMFILE
            it.send(token)
            assert await result == 0


async def test_a_process_that_dies_before_it_attaches_is_noticed_by_watch() -> None:
    with ringloop.SharedHandle() as handle:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            result = asyncio.ensure_future(handle.submit()[1])
            handle.watch(0, process.pid)
            await asyncio.sleep(0)
            assert not result.done()
            process.kill()
            with pytest.raises(ConnectionResetError):
                await result
        handle.watch(0, process.pid)            # gone already
        with pytest.raises(ConnectionResetError):
            handle.submit()


def test_a_producer_that_leaves_ends_what_it_left_open(on_host: Run) -> None:
    async def main() -> None:
        with ringloop.SharedHandle() as handle:
            producer = ringloop.SharedHandle.attach(handle.share())
            token, done = handle.submit()
            left = asyncio.ensure_future(handle.submit()[1])
            await asyncio.sleep(0)
            producer.complete(token, 1)
            producer.close()
            with pytest.raises(ConnectionResetError):
                await left
            assert await done == 1

    on_host(main())


CONSUMER = """
import asyncio, ringloop, signal, socket, struct, sys
async def main():
    handle = ringloop.SharedHandle()
    pairs = [handle.submit() for _ in range(200)]
    for _, result in pairs: result.add_done_callback(print)
    with socket.socket(fileno=int(sys.argv[1])) as peer:
        socket.send_fds(peer, [struct.pack("200Q", *(token for token, _ in pairs))], handle.share())
    if sys.argv[2] == "asleep": await asyncio.sleep(3600)
    signal.pause()
ringloop.run(main())
"""


@pytest.mark.parametrize("state", ["asleep", "busy"])
def test_a_producer_whose_consumer_was_killed_gets_an_error(state: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen([sys.executable, "-c", CONSUMER, str(theirs.fileno()), state],
                                pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL) as process:
        theirs.close()
        data, fds, _, _ = socket.recv_fds(ours, 1600, 3)
        tokens = struct.unpack("200Q", data)
        with ringloop.SharedHandle.attach((fds[0], fds[1], fds[2])) as producer:
            for fd in fds:
                os.close(fd)
            producer.complete(tokens[0], 1)
            assert producer.alive()
            process.kill()
            process.wait()
            with pytest.raises(BrokenPipeError, match="its process has ended"):
                for token in tokens[1:66]:
                    producer.complete(token, 1)
            with pytest.raises(BrokenPipeError):
                producer.complete(tokens[100])
            assert not producer.alive()


FORK = """
import asyncio, os, ringloop, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
async def main():
    handle = ringloop.SharedHandle(lanes=2)
    token, result = handle.submit(1)
    idle_token, idle = handle.submit(1)
    ready = asyncio.ensure_future(result)
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        try:
            for call in (handle.submit, lambda: handle.watch(0, 1)):
                try: call()
                except RuntimeError as error: assert "parent" in str(error), error
                else: os._exit(3)
            with ringloop.SharedHandle.attach(handle.share(), 1) as producer:
                del idle                # no business of the child's
                assert producer.wanted(idle_token) and producer.alive()
                handle.close()
                producer.complete(token, os.getpid())
                producer.complete(idle_token, 2)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(4)
    assert await ready == child
    assert await idle == 2
    assert os.waitpid(child, 0)[1] == 0
    assert not handle.closed
    handle.close()
RUN
"""


@pytest.mark.parametrize("ending", ["ringloop.run(main())", "asyncio.run(main())"])
def test_a_forked_child_attaches_and_leaves_its_parents_handle_alone(ending: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORK.replace("RUN", ending)],
                          capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
