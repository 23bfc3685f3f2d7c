// What a task that waits for an awaitable is woken with. Thread: GIL.
//
// asyncio's C task calls result() of the future that wakes it, by its name, and drops the answer:
// the coroutine asks again. It does so faster for a future of asyncio's own, so that a task that
// waits for a value gets a finished one in our place. Whoever else has added a callback gets the
// awaitable itself, and so does a task where result() raises: that goes into the coroutine.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

// Before the first call of the other; -1 with an exception.
[[nodiscard]] int prepare_wakeups() noexcept;

// The argument for `callback` of an awaitable that has its value. Borrowed.
[[nodiscard]] PyObject* value_for(PyObject* callback, PyObject* awaitable) noexcept;

}  // namespace ringloop::bridge
