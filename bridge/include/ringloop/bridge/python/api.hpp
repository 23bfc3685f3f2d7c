// The C table by which other extension modules share this process's runtime: capsule
// "ringloop._native.api". A module that uses it links none of ringloop's libraries; headers of
// bridge/core are enough. Modules of others use its C half alone: capi.h. Threads: as it says.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <exception>

#include "ringloop/bridge/core/job.hpp"
#include "ringloop/capi.h"

namespace ringloop::py::detail {
struct export_info;
}

namespace ringloop::bridge {

// A job whose result is a Python object. Python members (result(), the destructor) run on the
// loop's thread with the GIL.
class python_job : public job {
  public:
    // After run() returned without throwing: the value of the await (new reference), or null with
    // an exception set. What run() threw is translated by the awaitable (std::invalid_argument ->
    // ValueError, std::bad_alloc -> MemoryError, std::system_error -> OSError with errno, other ->
    // RuntimeError with what()).
    virtual PyObject* result() noexcept = 0;
    executor* where = nullptr;  // runs it; outlives it
};

inline constexpr std::uint32_t python_api_magic = RINGLOOP_API_MAGIC;
inline constexpr std::uint32_t python_api_version = RINGLOOP_API_VERSION;
inline constexpr const char* python_api_capsule = RINGLOOP_API_CAPSULE;

struct awaitable;
class source;
class iterator_source;
class loop_host;

// What modules compiled against our C++ headers find under ringloop_api::reserved: what needs
// Python and is not inline. GIL, unless it says otherwise.
#if !defined(RINGLOOP_PYTHON_TABLE_VERSION)
#define RINGLOOP_PYTHON_TABLE_VERSION 1u
#endif
// Of the table's present entries, and of the classes above, source, awaitable, loop_host and
// iterator_source; and, since a module links it, of libringloop.
inline constexpr std::uint32_t python_table_version = RINGLOOP_PYTHON_TABLE_VERSION;

struct python_table {
    std::uint32_t version;
    std::uint32_t size;  // bytes; the table grows at its end
    // An unstarted ringloop.Awaitable that owns `work` (deletes it with the GIL held, never while
    // it runs). It is submitted to work->where at the first await; cancelling requests its stop,
    // and the await ends when the worker has left it. New reference, or null with an exception set
    // (then `work` has been deleted).
    PyObject* (*await_job)(python_job* work) noexcept;
    // The same for any source; null for `work` is MemoryError.
    PyObject* (*new_awaitable)(source* work) noexcept;
    void (*finish)(awaitable& ended) noexcept;  // awaitable::finish()
    // Sets the exception for what is thrown: errors.hpp.
    void (*raise_from)(const std::exception_ptr& error) noexcept;
    // Drops a reference soon, under the GIL. Any thread, GIL not needed.
    void (*release_later)(PyObject* object) noexcept;
    // An asynchronous iterator that owns `work`, as new_awaitable().
    PyObject* (*new_iterator)(iterator_source* work) noexcept;
    // An await that has ended: with None, or with `value`, whose reference it takes.
    PyObject* (*finished)(PyObject* value) noexcept;
    PyObject* (*cancelled_error)() noexcept;  // asyncio.CancelledError, borrowed
    // Shows the function's counters in ringloop.stats(). `added` lives as long as the process.
    void (*add_export)(const py::detail::export_info& added) noexcept;
    void (*watch_steps)(loop_host& host) noexcept;  // loop_host::watch_steps()
    // The result of a kernel, in the account of native memory (ringloop/memory.hpp): `taken` after
    // it is there, not `taken` before it goes. Any thread, GIL not needed.
    void (*count_result)(const void* block, std::size_t bytes, bool taken) noexcept;
    // A native exception and the Python one that stands for it: errors.hpp.
    void (*keep_native)(PyObject* exception, const std::exception_ptr& error) noexcept;
    std::exception_ptr (*native_of)(PyObject* exception) noexcept;
};

}  // namespace ringloop::bridge
