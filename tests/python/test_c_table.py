"""ringloop's C table, as another library's extension module uses it: a C file compiled against the
one header that the package ships."""
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ringloop
from harness import compiled

SOURCE = r"""
#include <ringloop/capi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const ringloop_api *ring;
static PyObject *seen;  /* a list */
static int destroyed;

struct job { ringloop_work *work; int microseconds; int stopped; pthread_t thread; };

static void *work(void *context) {
    struct job *job = context;
    for (int i = 0; i < job->microseconds && !job->stopped; i += 100) {
        usleep(100);
        job->stopped = ring->stop_requested(job->work);
    }
    ring->complete(job->work);
    return NULL;
}
static void start(void *context, ringloop_work *handed) {
    struct job *job = context;
    job->work = handed;
    pthread_create(&job->thread, NULL, work, job);
}
static PyObject *result(void *context) {
    struct job *job = context;
    if (job->microseconds == 13) return PyErr_Format(PyExc_LookupError, "thirteen");
    return PyLong_FromLong(job->microseconds);
}
static void destroy(void *context) {
    struct job *job = context;
    if (job->work) pthread_join(job->thread, NULL);
    free(job);
    ++destroyed;
}
static const ringloop_job description = {start, result, destroy};

static PyObject *submit(PyObject *self, PyObject *number) {
    struct job *job = calloc(1, sizeof *job);
    job->microseconds = (int)PyLong_AsLong(number);
    return ring->submit(&description, job);
}

static void note(void *context) {
    PyObject *number = PyLong_FromVoidPtr(context);
    PyList_Append(seen, number);
    Py_DECREF(number);
}
static void *post_many(void *context) {
    ringloop_loop *loop = context;
    for (uintptr_t i = 0; i < 1000; ++i) if (ring->post(loop, note, (void *)i)) break;
    ring->release(loop);
    return NULL;
}
static PyObject *post(PyObject *self, PyObject *loop) {  /* from a thread that knows no Python */
    pthread_t thread;
    ringloop_loop *handle = ring->acquire(loop);
    if (!handle) return NULL;
    pthread_create(&thread, NULL, post_many, handle);
    pthread_detach(thread);
    Py_RETURN_NONE;
}

static void end_handle(PyObject *capsule) {
    ring->release(PyCapsule_GetPointer(capsule, "loop"));
}
static PyObject *acquire(PyObject *self, PyObject *loop) {
    ringloop_loop *handle = ring->acquire(loop);
    return handle ? PyCapsule_New(handle, "loop", end_handle) : NULL;
}
static PyObject *now(PyObject *self, PyObject *capsule) {
    return PyLong_FromLongLong(ring->now(PyCapsule_GetPointer(capsule, "loop")));
}
static PyObject *post_once(PyObject *self, PyObject *capsule) {
    return PyLong_FromLong(ring->post(PyCapsule_GetPointer(capsule, "loop"), note, (void *)7));
}
static PyObject *count(PyObject *self, PyObject *ignored) { return PyLong_FromLong(destroyed); }

static PyMethodDef methods[] = {
    {"submit", submit, METH_O, NULL}, {"post", post, METH_O, NULL}, {"now", now, METH_O, NULL},
    {"acquire", acquire, METH_O, NULL}, {"post_once", post_once, METH_O, NULL},
    {"destroyed", count, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "guest", NULL, -1, methods};

PyMODINIT_FUNC PyInit_guest(void) {
    PyObject *made;
    if (!(ring = ringloop_import())) return NULL;
    made = PyModule_Create(&module);
    seen = PyList_New(0);
    PyModule_AddObjectRef(made, "seen", seen);
    return made;
}
"""


@pytest.fixture(scope="module")
def guest() -> Any:
    return compiled.module(SOURCE, "guest")


def test_the_package_ships_the_header() -> None:
    assert (Path(ringloop.get_include()) / "ringloop" / "capi.h").is_file()


def test_work_of_another_library_is_awaited_under_every_loop(guest: Any, on_host: Any) -> None:
    before = guest.destroyed()

    async def main() -> list[Any]:
        return await asyncio.gather(*(guest.submit(n) for n in (100, 200, 0)), guest.submit(13),
                                    return_exceptions=True)

    *numbers, error = on_host(main())
    assert numbers == [100, 200, 0]
    assert isinstance(error, LookupError) and str(error) == "thirteen"
    assert guest.destroyed() == before + 4


def test_a_cancelled_await_stops_the_work(guest: Any, on_host: Any) -> None:
    before = guest.destroyed()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await guest.submit(600_000_000)

    on_host(main())
    assert guest.destroyed() == before + 1


def test_work_that_was_never_awaited_is_never_started(guest: Any) -> None:
    before = guest.destroyed()
    del (made := [guest.submit(5)])[:]
    assert guest.destroyed() == before + 1


def test_posts_arrive_in_order_on_the_loops_thread(guest: Any, on_host: Any) -> None:
    guest.seen.clear()

    async def main() -> None:
        guest.post(asyncio.get_running_loop())
        while len(guest.seen) < 1000:
            await asyncio.sleep(0.001)

    on_host(main())
    assert guest.seen == list(range(1000))


def test_the_clock_is_the_loops(guest: Any, loop: Any) -> None:
    handle = guest.acquire(loop)
    before, now, after = loop.time(), guest.now(handle) / 1e9, loop.time()
    assert before <= now <= after


def test_a_handle_outlives_its_loop_and_refuses(guest: Any, loop: Any) -> None:
    guest.seen.clear()
    handle = guest.acquire(loop)
    assert guest.post_once(handle) == 0
    loop.close()
    assert guest.seen == [7]  # at the latest when the loop is closed
    assert guest.post_once(handle) == -1 and guest.now(handle) == -1
    with pytest.raises(RuntimeError, match="closed"):
        guest.acquire(loop)


def test_posts_behind_those_that_a_turn_left_over_run_when_the_loop_is_closed(
    guest: Any, loop: Any
) -> None:
    """They used to be forgotten: a turn takes about a thousand, close() took what was left."""
    guest.seen.clear()
    handle = guest.acquire(loop)
    for _ in range(3000):
        guest.post_once(handle)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert 0 < len(guest.seen) < 3000
    for _ in range(10):
        guest.post_once(handle)
    loop.close()
    assert len(guest.seen) == 3010


def test_a_post_runs_when_a_foreign_loop_is_closed_before_it_turns(guest: Any) -> None:
    """It used to be accepted and forgotten."""
    guest.seen.clear()
    loop = asyncio.SelectorEventLoop()
    handle = guest.acquire(loop)
    assert guest.post_once(handle) == 0
    loop.close()
    assert guest.seen == [7]
    assert guest.post_once(handle) == -1


def test_threads_may_post_while_the_loop_is_closed(guest: Any, backend: str) -> None:
    for _ in range(20):
        loop = ringloop.new_event_loop(backend=backend)
        guest.post(loop)
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
