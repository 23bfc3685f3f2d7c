// Hooks around the steps of tasks (ringloop.hooks), on any loop: while one is set, a new task gets
// its coroutine inside of a `steps` object, which passes every step on and calls the hooks around
// it. A task that was made without one is never seen, and costs nothing.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include "ringloop/bridge/python/ref.hpp"
#include "step_hooks.hpp"

namespace ringloop::python {

// Worth a call where step_hooks_set.
// What a task is to get for `coro`: a new `steps` around it, or `coro` itself where it is none.
// Null with an exception set.
[[nodiscard]] bridge::ref with_hooks(PyObject* coro) noexcept;
// The task is there, its first step may be to come: on_ready. its_own: `task` itself makes the
// steps, which is not sure of what another's factory gives. -1 with an exception set.
[[nodiscard]] int tell_created(PyObject* coro, PyObject* task, bool its_own) noexcept;

int add_step_types(PyObject* module) noexcept;

}  // namespace ringloop::python
