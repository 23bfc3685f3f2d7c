// finalizing(): whether the interpreter is ending. Thread: any.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

[[nodiscard]] inline bool finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace ringloop::bridge
