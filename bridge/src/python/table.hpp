// The parts of module initialisation that add_awaitable_types() is made of, and what they share.
#pragma once

#include <Python.h>

#include "ringloop/bridge/python/api.hpp"

namespace ringloop::bridge {

PyObject* await_job(python_job* work) noexcept;  // job_source.cpp
int add_python_api(PyObject* module) noexcept;   // c_table.cpp
int add_guest_types() noexcept;                  // guest.cpp

}  // namespace ringloop::bridge
