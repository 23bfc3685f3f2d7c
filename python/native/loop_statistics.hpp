// loop_statistics: counters of every loop in the process, for ringloop.stats(). GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

int add_loop_statistics(PyObject* module) noexcept;

}  // namespace ringloop::python
