// NativeTask: asyncio's Task with a number, node_id, that is drawn when it is first asked for.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

extern PyObject* native_task_type;  // set at module initialisation

// Of no class derived from it.
[[nodiscard]] inline bool is_native_task(PyObject* object) noexcept {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == native_task_type;
}
// NativeTask(coro, loop=loop), without a dictionary of its own for the call.
[[nodiscard]] PyObject* new_native_task(PyObject* loop, PyObject* coro) noexcept;

// The argument for a callback of a NativeTask that has ended: `task`, or what wakes another task
// sooner (task_wakeup.hpp). Borrowed.
[[nodiscard]] PyObject* argument_of_native_task(PyObject* callback, PyObject* task) noexcept;

int add_native_task_type(PyObject* module) noexcept;

}  // namespace ringloop::python
