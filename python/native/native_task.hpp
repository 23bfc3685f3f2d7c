// NativeTask: asyncio's Task with a number, node_id, that is drawn when it is first asked for.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

extern PyObject* native_task_type;  // set at module initialisation

// NativeTask(coro, loop=loop), without a dictionary of its own for the call.
[[nodiscard]] PyObject* new_native_task(PyObject* loop, PyObject* coro) noexcept;

int add_native_task_type(PyObject* module) noexcept;

}  // namespace ringloop::python
