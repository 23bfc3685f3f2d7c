// The C table by which other extension modules share this process's runtime: capsule
// "ringloop._native.api". A module that uses it links none of ringloop's libraries; headers of
// bridge/core are enough. Modules of others use its C half alone: capi.h. Threads: as it says.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "ringloop/bridge/core/job.hpp"
#include "ringloop/capi.h"

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

// The table's first entries; ringloop_api in capi.h is the whole.
struct python_api {
    std::uint32_t magic;
    std::uint32_t version;
    // An unstarted ringloop.Awaitable that owns `work` (deletes it with the GIL held, never while
    // it runs). It is submitted to work->where at the first await; cancelling requests its stop,
    // and the await ends when the worker has left it. New reference, or null with an exception set
    // (then `work` has been deleted).
    PyObject* (*await_job)(python_job* work) noexcept;
};
static_assert(sizeof(python_api) == offsetof(ringloop_api, acquire));

}  // namespace ringloop::bridge
