// NativeTask: asyncio's Task with a number, node_id, that is drawn when it is first asked for.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

extern PyObject* native_task_type;  // set at module initialisation

int add_native_task_type(PyObject* module) noexcept;

}  // namespace ringloop::python
