// The parts of module initialisation that add_awaitable_types() is made of.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

int add_python_api(PyObject* module) noexcept;  // job_source.cpp
int add_guest_types() noexcept;                 // guest.cpp

}  // namespace ringloop::bridge
