// ringloop's C table for other extension modules: submit, post, now.
//
// Compiled with the include path that ringloop.get_include() gives:
//
//     #include <ringloop/capi.h>
//
//     const ringloop_api* ringloop = ringloop_import();
//
// in the module's initialisation; null: an exception is set.
//
// Nothing is linked. The table grows at its end only: a module works with every ringloop whose
// version is at least the one that it was compiled for. Plain C; usable from C++. Threads: each
// function says which, and whether it needs the GIL.
#ifndef RINGLOOP_CAPI_H
#define RINGLOOP_CAPI_H

#include <Python.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGLOOP_API_MAGIC 0x72696e67u /* "ring" */
#define RINGLOOP_API_VERSION 2u
#define RINGLOOP_API_CAPSULE "ringloop._native.api"

/* One event loop, for threads that are not its own. Counted; outlives the loop. */
typedef struct ringloop_loop ringloop_loop;
/* Work that was handed over, until it is completed. */
typedef struct ringloop_work ringloop_work;

typedef struct ringloop_job {
    /* At the first await, on the loop's thread with the GIL: hand the work to a thread of yours.
     * Must not block or fail. complete(work) is called exactly once, by any thread, also here. */
    void (*start)(void* context, ringloop_work* work);
    /* After complete(), on the loop's thread with the GIL: the value of the await, or null with an
     * exception set. */
    PyObject* (*result)(void* context);
    /* Once, with the GIL, when nothing needs `context` any more. May be null. */
    void (*destroy)(void* context);
} ringloop_job;

typedef struct ringloop_api {
    uint32_t magic;
    uint32_t version;
    void* reserved; /* for ringloop's own modules */

    /* A handle on a running or idle loop: ringloop's own, asyncio's or another. GIL, on the loop's
     * thread. Null with an exception set. */
    ringloop_loop* (*acquire)(PyObject* loop);
    /* Any thread, no GIL needed. */
    void (*release)(ringloop_loop* loop);
    /* Any thread, no GIL needed, never waits for the loop: run(context) on the loop's thread with
     * the GIL, in order, never inside this call; at the latest when the loop is closed. -1: the
     * loop is closed already, or no memory; run is not called then. run() must not leave an
     * exception set. */
    int (*post)(ringloop_loop* loop, void (*run)(void* context), void* context);
    /* Nanoseconds of the clock that loop.time() counts in seconds (of the real one, where a test
     * has given the loop a virtual clock); -1 once the loop is closed. Any thread, no GIL needed.
     */
    int64_t (*now)(ringloop_loop* loop);

    /* An unstarted ringloop.Awaitable: it works under every event loop, and owns `context`. A
     * cancelled await ends when the work has been completed. GIL; null with an exception set (then
     * destroy(context) was called). `job` must outlive it. */
    PyObject* (*submit)(const ringloop_job* job, void* context);
    /* Any thread, no GIL needed: the work is done; `work` is invalid from here on. */
    void (*complete)(ringloop_work* work);
    /* Any thread, before complete(): whether the await was cancelled, so that the work may end
     * early. */
    int (*stop_requested)(const ringloop_work* work);
} ringloop_api;

/* The table, or null with an exception set: ImportError where ringloop is missing or too old.
 * GIL. */
static inline const ringloop_api* ringloop_import(void) {
    const ringloop_api* found;
    PyObject* module = PyImport_ImportModule("ringloop._native");
    PyObject* capsule = module != NULL ? PyObject_GetAttrString(module, "api") : NULL;
    Py_XDECREF(module); /* sys.modules holds it */
    if (capsule == NULL) return NULL;
    found = (const ringloop_api*)PyCapsule_GetPointer(capsule, RINGLOOP_API_CAPSULE);
    Py_DECREF(capsule);
    if (found == NULL) return NULL;
    if (found->magic == RINGLOOP_API_MAGIC && found->version >= RINGLOOP_API_VERSION) return found;
    PyErr_Format(PyExc_ImportError,
                 "this module needs version %u of ringloop's C table, the installed one has %u: "
                 "update ringloop",
                 RINGLOOP_API_VERSION, (unsigned)found->version);
    return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
