// The parts of module initialisation that add_awaitable_types() is made of, and what they share.
#pragma once

#include <Python.h>

#include <memory>

#include "ringloop/bridge/python/api.hpp"

namespace ringloop::bridge {

PyObject* await_job(python_job* work) noexcept;  // job_source.cpp
int add_python_api(PyObject* module) noexcept;   // c_table.cpp
// creation_site.cpp: lines of a traceback (new reference), or null while nobody tracks origins.
PyObject* creation_site() noexcept;
// Whether RINGLOOP_DEBUG asked for debug mode on every loop, when the module was imported.
[[nodiscard]] bool debug_is_forced() noexcept;                           // slow_steps.cpp
int add_guest_types() noexcept;                                          // guest.cpp
int add_iterator_type() noexcept;                                        // iterator.cpp
PyObject* new_iterator(std::unique_ptr<iterator_source> work) noexcept;  // iterator.cpp
void release_later(PyObject* object) noexcept;                           // release_queue.cpp
void add_export(const py::detail::export_info& added) noexcept;          // exports.cpp
int add_export_statistics(PyObject* module) noexcept;                    // exports.cpp
int add_memory_functions(PyObject* module) noexcept;                     // memory.cpp

// Getters of the awaitable: awaitable_inspect.cpp.
PyObject* awaitable_name(PyObject* object, void*) noexcept;
PyObject* awaitable_qualified_name(PyObject* object, void*) noexcept;
PyObject* awaitable_code(PyObject* object, void*) noexcept;
PyObject* awaitable_frame(PyObject* object, void*) noexcept;  // None once it is done
PyObject* awaitable_suspended(PyObject* object, void*) noexcept;
PyObject* awaitable_state(PyObject* object, void*) noexcept;

}  // namespace ringloop::bridge
