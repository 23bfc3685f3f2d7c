// runtime(): this process's ringloop, as an extension module that was built on its own sees it.
//
// Native code (schedulers, sockets, files) is in the shared library libringloop; what needs Python
// is reached through a table that the package hands out in a capsule. The table and the classes
// that cross it have one version, python_table_version; the table grows at its end, so that a
// module works with every later ringloop of the same version.
//
// Thread: import_runtime() with the GIL, in the module's initialisation (py::def does it);
// runtime() any afterwards.
#pragma once

#include <Python.h>

#include "ringloop/bridge/python/api.hpp"

namespace ringloop::py {

namespace detail {
inline const bridge::python_table* found_runtime = nullptr;
inline const ringloop_api* found_api = nullptr;
}  // namespace detail

// 0, or -1 with ImportError set: ringloop is missing, or of another version, or this is a
// subinterpreter, where it does not run.
[[nodiscard]] inline int import_runtime() noexcept {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "this module needs ringloop, which runs in the main interpreter only: it "
                        "has one runtime per process; import the module there");
        return -1;
    }
    if (detail::found_runtime != nullptr) return 0;
    const ringloop_api* api = ringloop_import();
    if (api == nullptr) return -1;
    const auto* table = static_cast<const bridge::python_table*>(api->reserved);
    if (table->version != bridge::python_table_version ||
        table->size < sizeof(bridge::python_table)) {
        PyErr_Format(PyExc_ImportError,
                     "this module was built for version %u of ringloop's C++ interface (%u bytes), "
                     "the installed ringloop has version %u (%u bytes): rebuild the module, or "
                     "install the ringloop that it was built for",
                     static_cast<unsigned>(bridge::python_table_version),
                     static_cast<unsigned>(sizeof(bridge::python_table)),
                     static_cast<unsigned>(table->version), static_cast<unsigned>(table->size));
        return -1;
    }
    detail::found_api = api;
    detail::found_runtime = table;
    return 0;
}

[[nodiscard]] inline const bridge::python_table& runtime() noexcept {
    return *detail::found_runtime;
}

namespace detail {
// The half of it that reaches loops from other threads (capi.h).
[[nodiscard]] inline const ringloop_api& loop_table() noexcept {
    return *found_api;
}
}  // namespace detail

}  // namespace ringloop::py
