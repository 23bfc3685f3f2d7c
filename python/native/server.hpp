// Listeners of asyncio's own Server: multishot accept, the protocol factory called natively, no
// Python socket per connection.
//
// A listener is a Python object, kept by its accept operation while it is armed and by its retry
// timer while descriptors are short; it is never lost before stop_serving().
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

struct loop_object;

// start_serving(loop, protocol_factory, sock, sslcontext=None, server=None, backlog=100,
//               ssl_handshake_timeout=None, ssl_shutdown_timeout=None)
PyObject* start_serving(PyObject* module, PyObject* const* arguments, Py_ssize_t count) noexcept;
// stop_serving(loop, sock): no connection is accepted afterwards; closes `sock`.
PyObject* stop_serving(PyObject* module, PyObject* const* arguments, Py_ssize_t count) noexcept;

// For the loop's traverse: the listeners that an accept of this loop's keeps alive.
int visit_listeners(loop_object* loop, visitproc visit, void* arg) noexcept;

int add_server_types(PyObject* module) noexcept;

}  // namespace ringloop::python
