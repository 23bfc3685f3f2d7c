// The classes that a stock StreamReader and StreamWriter become: subclasses without a layout of
// their own whose hot methods are native. Each falls back to the stock method where the transport
// is not ours, feeds no reader (any more), or the arguments are unusual.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

// New references; null with an exception set.
[[nodiscard]] PyObject* make_native_reader(PyObject* stock) noexcept;
[[nodiscard]] PyObject* make_native_writer(PyObject* stock) noexcept;

}  // namespace ringloop::python
