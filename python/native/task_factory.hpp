// The callable that ringloop.task_factory() gives: makes NativeTasks, or lets another factory make
// tasks, with the hooks of task_steps.hpp around their steps.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

// Whether it is one that makes NativeTasks itself: then make_task() is all that create_task() does.
[[nodiscard]] bool makes_native_tasks(PyObject* factory) noexcept;
// A new task of `loop`, or null with an exception set. `values` are those of `names` (may be null).
[[nodiscard]] PyObject* make_task(PyObject* factory, PyObject* loop, PyObject* coro,
                                  PyObject* const* values, PyObject* names) noexcept;

int add_task_factory_type(PyObject* module) noexcept;

}  // namespace ringloop::python
