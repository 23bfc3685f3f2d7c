// Calls of Python functions on worker threads, as awaits.
//
// The threads take the GIL for a call, and keep it from one call to the next while calls are
// queued, for a millisecond at most: to give it back and ask for it again costs more than a short
// call does. Another thread is woken when a call is queued and nobody is on the way to it, so that
// functions that let go of the GIL, or block, run beside each other.
// Thread: offload_call() on the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

// A new awaitable for args[0](*args[1:]), or null with an exception set. Cancel: a call that has
// not begun does not; one that has is waited for, and its result dropped.
PyObject* offload_call(PyObject* module, PyObject* const* args, Py_ssize_t count) noexcept;

}  // namespace ringloop::bridge
