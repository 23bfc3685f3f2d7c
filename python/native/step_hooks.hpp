// What is called around the steps of tasks: Python callables, and C functions (hooks.h), for which
// no Python object is made. task_steps.hpp is where a step is.
// Thread: the task's loop's, GIL held; registration any thread with the GIL.
#pragma once

#include <Python.h>

namespace ringloop::python {

class hook_list;

// The hooks of one kind.
struct hook_kind {
    const char* name;
    hook_list* list = nullptr;  // null: none
    explicit operator bool() const noexcept { return list != nullptr; }
};
extern hook_kind on_ready, before_run, after_run, on_slow;

// Some hook is set.
extern bool step_hooks_set;

// Calls them all with (task), or (task, seconds) where `timed`. What one raises goes to the loop's
// exception handler, unless it is no Exception (KeyboardInterrupt): then -1 with it set.
[[nodiscard]] int call_hooks(const hook_kind& kind, PyObject* task, bool timed = false,
                             double seconds = 0) noexcept;

int add_step_hooks(PyObject* module) noexcept;

}  // namespace ringloop::python
