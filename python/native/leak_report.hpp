// leak_report: what is still alive when the interpreter has ended, on stderr; nothing where nothing
// is. Objects that module globals hold are freed by then, so they are no leaks.
//
// Thread: GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

int add_leak_report(PyObject* module) noexcept;

}  // namespace ringloop::python
