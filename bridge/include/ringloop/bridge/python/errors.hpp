// Exceptions between C++ and Python. GIL held throughout.
#pragma once

#include <Python.h>

#include <exception>

namespace ringloop::bridge {

// Sets the Python exception for `error`:
//
//     std::system_error                              the subclass of OSError for its errno;
//                                                    ECANCELED: CancelledError
//     operation_cancelled                            asyncio.CancelledError
//     std::bad_alloc                                 MemoryError
//     std::invalid_argument, domain_error, length_error  ValueError
//     std::out_of_range                              IndexError
//     std::overflow_error                            OverflowError
//     any other                                      RuntimeError with what()
//
// What it was thrown for (std::nested_exception) becomes its __cause__, all the way down.
void raise_from(const std::exception_ptr& error) noexcept;

// Keeps `error` with the Python exception that stands for it, so that native code which meets that
// exception again throws the same object. Copying and pickling leave it out. No exception is set.
void keep_native(PyObject* exception, const std::exception_ptr& error) noexcept;
// What was kept; null: nothing.
[[nodiscard]] std::exception_ptr native_of(PyObject* exception) noexcept;

// Sets OSError(code, text[, path]) for a completion's result or an errno (either sign).
void raise_errno(long result, PyObject* path = nullptr) noexcept;

// Sets OSError(code, text), of the subclass for that errno; `format` is PyErr_Format()'s.
void raise_os_error(int code, const char* format, ...) noexcept;

// ringloop.AffinityError, a RuntimeError: something of a loop was used on another thread than the
// one that runs it, or on another loop. Borrowed; as below.
[[nodiscard]] PyObject* affinity_error() noexcept;
// Creates it and adds it to `module`: 0, or -1 with an exception set.
int add_affinity_error(PyObject* module) noexcept;

// asyncio's exceptions, borrowed; valid after add_awaitable_types().
[[nodiscard]] PyObject* cancelled_error() noexcept;
[[nodiscard]] PyObject* invalid_state_error() noexcept;

}  // namespace ringloop::bridge
