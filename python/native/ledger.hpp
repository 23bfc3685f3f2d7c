// ledger: process-wide live counts by name, so that every test can check in its teardown that
// nothing was left behind. Counters are plain longs changed under the GIL. `_native.ledger()`
// returns them as a dict.
#pragma once

#include <Python.h>

namespace ringloop::python {

// Registers a counter for good; `name` is a literal.
void ledger_add(const char* name, const long* counter) noexcept;
// Registers a function that computes a count (operations in flight of all loops, for one).
void ledger_add(const char* name, long (*count)()) noexcept;
// The count of that name, 0 if there is none. No Python.
[[nodiscard]] long ledger_count(const char* name) noexcept;
[[nodiscard]] PyObject* ledger_dict(PyObject*, PyObject*) noexcept;

}  // namespace ringloop::python
