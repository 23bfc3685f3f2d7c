// loop_host: how native work reaches one asyncio loop and comes back. One per Python event loop:
// ringloop's own loop embeds one (same ring); stock asyncio and uvloop get a guest (a scheduler of
// its own under one add_reader).
//
// Thread: the loop's, with the GIL held, except where said.
#pragma once

#include <Python.h>

#include "ringloop/scheduler.hpp"

namespace ringloop::bridge {

class loop_host {
  public:
    virtual ~loop_host() = default;
    [[nodiscard]] scheduler& native() noexcept { return *native_; }
    [[nodiscard]] PyObject* loop() noexcept { return loop_; }  // borrowed
    // loop.call_soon(callback, argument, context=context): 0, or -1 with a Python exception set.
    virtual int call_soon(PyObject* callback, PyObject* argument, PyObject* context) noexcept = 0;

  protected:
    loop_host(PyObject* loop, scheduler* native) noexcept : loop_(loop), native_(native) {}
    PyObject* loop_;
    scheduler* native_;
};

// The host of a running loop; makes a guest the first time a foreign loop is seen. Null with an
// exception set on failure.
[[nodiscard]] loop_host* host_of(PyObject* loop) noexcept;

}  // namespace ringloop::bridge
