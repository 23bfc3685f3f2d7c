// gil_scope: this thread may touch Python objects for as long as the scope lives.
//
//     {
//         const rl::py::gil_scope gil;
//         PyList_Append(list, item);
//     }
//
// Any thread, also one that Python does not know; scopes nest. Not across a co_await that waits:
// the coroutine goes on elsewhere. Where the interpreter has ended, or is ending, it throws
// interpreter_ended, so that native threads may outlive Python. In a subinterpreter it throws
// std::logic_error: what native code holds are the main interpreter's objects.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "ringloop/bridge/python/finalizing.hpp"
#include "ringloop/py/gil.hpp"

namespace ringloop::py {

class interpreter_ended : public std::runtime_error {
  public:
    interpreter_ended() : runtime_error("the Python interpreter of this process has ended") {}
};

namespace detail {

// The door to the interpreter that this program hosts. Who ends it closes the door, and then waits
// for those who are inside (interpreter.hpp). Both are sequentially consistent: one of two threads
// sees the other.
struct python_door {
    std::atomic<bool> closed{false};
    std::atomic<unsigned> inside{0};
};
inline python_door door;

// CPython before 3.14 ends a thread that asks for the GIL too late by unwinding its stack, through
// destructors, handlers and what is noexcept. Such a thread stays here: it must never run again.
inline void stay_behind_without_gil() noexcept {
    while (!holds_gil())
        std::this_thread::sleep_for(std::chrono::hours(1));  // tidy-allow: banned because of it
}
// Around what asks for it.
struct late_for_gil {
    late_for_gil() = default;
    ~late_for_gil() { stay_behind_without_gil(); }
    late_for_gil(const late_for_gil&) = delete;
    late_for_gil& operator=(const late_for_gil&) = delete;
};
// Calls what may run Python code, and may so come back for the GIL too late.
template <class Result, class... Parameters, class... Arguments>
Result run_python(Result (*function)(Parameters...), Arguments... arguments) noexcept {
    const late_for_gil stays;
    return function(arguments...);
}

}  // namespace detail

class gil_scope {
  public:
    gil_scope() {
        if (holds_gil()) {
            if (PyInterpreterState_Get() != PyInterpreterState_Main()) refuse_subinterpreter();
            return;
        }
        detail::door.inside.fetch_add(1);
        if (detail::door.closed.load() || Py_IsInitialized() == 0 || bridge::finalizing()) {
            detail::door.inside.fetch_sub(1);
            throw interpreter_ended();
        }
        state_ = detail::run_python(&PyGILState_Ensure);  // which may be too late by now
        taken_ = true;
    }
    ~gil_scope() {
        if (!taken_) return;
        detail::stay_behind_without_gil();
        PyGILState_Release(state_);
        detail::door.inside.fetch_sub(1);
    }
    gil_scope(const gil_scope&) = delete;
    gil_scope& operator=(const gil_scope&) = delete;

  private:
    [[noreturn]] static void refuse_subinterpreter() {
        throw std::logic_error(
            "ringloop::py: this thread is in a subinterpreter; ringloop, and the objects that "
            "native code holds, are in the main interpreter");
    }
    PyGILState_STATE state_{};
    bool taken_ = false;
};

}  // namespace ringloop::py
