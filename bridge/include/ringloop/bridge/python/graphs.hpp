// The native half of ringloop.Graph: the graph's core, and calls of Python functions on workers.
// Thread: module initialisation, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

// Adds GraphCore and _offload() to `module`: 0, or -1 with an exception set.
int add_graph_types(PyObject* module) noexcept;

}  // namespace ringloop::bridge
