// ringloop/hooks.h: hooks around the steps of tasks, in C (ringloop.hooks in Python).
//
//     static void before_run(PyObject* task, double seconds, void* context) { ++*(long*)context; }
//     …
//     PyObject* hook = ringloop_hook_new(&before_run, &counter);      // give it to Python
//
//     registration = ringloop.hooks.add(before_run=hook)
//
// A native hook is called without any Python object being made for it. By ctypes the same function
// is given with its type declared: restype None, argtypes (c_void_p, c_double, c_void_p); its
// context is then null.
//
// Thread: that of the task's loop, which may be any that runs one, several at a time only where
// Python has no GIL. The GIL is held and must be held at the return; what takes long must not be
// done here, for the loop waits.
// Lifetime: the function, and what `context` points to, must stay until the registration has been
// removed and the call that was under way then has returned; the registration keeps the capsule,
// so that a destructor that the module sets on it (PyCapsule_SetDestructor) may free the context.
// Failure: a hook cannot fail. An exception that it leaves set is reported to the loop's exception
// handler, and changes nothing for the step; one that is no Exception (KeyboardInterrupt) ends it.
#ifndef RINGLOOP_HOOKS_H
#define RINGLOOP_HOOKS_H

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* subject: the task, or the loop for on_idle; borrowed for the call. seconds: for on_slow how long
 * the step took, else 0. context: the capsule's. */
typedef void (*ringloop_hook)(PyObject* subject, double seconds, void* context);

#define RINGLOOP_HOOK_CAPSULE "ringloop.hook"

/* A capsule for hooks.add(), or null with an exception set (ValueError for a null `hook`). GIL. */
static inline PyObject* ringloop_hook_new(ringloop_hook hook, void* context) {
    PyObject* capsule = PyCapsule_New((void*)hook, RINGLOOP_HOOK_CAPSULE, NULL);
    if (capsule != NULL && context != NULL && PyCapsule_SetContext(capsule, context) < 0) {
        Py_DECREF(capsule);
        return NULL;
    }
    return capsule;
}

#ifdef __cplusplus
}
#endif

#endif
