// The simulated kernel, shown to Python tests. Built with RINGLOOP_TEST_BACKEND only.
#pragma once

#include <Python.h>

namespace ringloop::python {

// Adds Simulation to `module`: 0, or -1 with an exception set.
int add_simulation_types(PyObject* module) noexcept;

}  // namespace ringloop::python
