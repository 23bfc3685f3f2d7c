// holds_gil(): whether this thread may touch Python objects now.
//
// Not PyGILState_Check(), which says yes to everybody once a subinterpreter has been made.
// Thread: any.
#pragma once

#include <Python.h>

namespace ringloop::py {

[[nodiscard]] inline bool holds_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != nullptr;
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet() != nullptr;
#else
    // Of the thread that holds the GIL, whichever that is.
    const PyThreadState* const holder = _PyThreadState_UncheckedGet();
    return holder != nullptr && holder->thread_id == PyThread_get_thread_ident();
#endif
}

}  // namespace ringloop::py
