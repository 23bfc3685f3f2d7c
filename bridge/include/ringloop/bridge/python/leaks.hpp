// Which awaitables and iterators are alive, by the native function that made them: for the report
// at the interpreter's end. Nothing is noted until watch_leaks(); then each object costs an entry.
//
// Thread: GIL held, but for each_leak(): when the interpreter has ended, on the thread that ended
// it. Nothing there touches Python.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

extern bool leaks_watched;

// From here on, for objects made from here on. False: no memory.
bool watch_leaks() noexcept;

void note_leak(PyObject* object, const char* type, const char* name, PyObject* site) noexcept;
void forget_leak(PyObject* object) noexcept;

// One call for all that have type, function and creation site ("" where it is not known) in common,
// in their order.
void each_leak(void (*visit)(const char* type, const char* name, const char* site, long count));

}  // namespace ringloop::bridge
