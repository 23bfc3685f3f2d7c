// Benchmarks' and tests' way into the bridge; see probe.cpp.
#pragma once

#include <Python.h>

namespace ringloop::python {

int add_probe(PyObject* module) noexcept;

}  // namespace ringloop::python
