// The types behind ringloop.SharedHandle, for the module that offers them.
//
// Thread: any, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::bridge {

// Adds `HandleCore`, `HandleProducer` and their functions to `module`, behind
// add_awaitable_types(): 0, or -1 with an exception set.
int add_handle_types(PyObject* module) noexcept;

// Live handles, closed ones that a capsule or an await keeps among them; for the ledger.
extern long shared_handles_live;

}  // namespace ringloop::bridge
