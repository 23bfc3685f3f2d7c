// The awaitables behind sock_*. Null with an exception set. Contract in sockets.hpp.
#pragma once

#include "sockets.hpp"

namespace ringloop::python {

enum class ready_for { reading, writing };

[[nodiscard]] PyObject* await_receive(PyObject* socket, std::size_t size) noexcept;
[[nodiscard]] PyObject* await_receive_into(PyObject* socket, PyObject* buffer) noexcept;
[[nodiscard]] PyObject* await_send_all(PyObject* socket, PyObject* data) noexcept;
// Done when it is this call's turn to write: an object that holds the turn while it lives.
[[nodiscard]] PyObject* await_send_turn(PyObject* socket) noexcept;
// socket.<method>(*args), at once and after each poll until it no longer would block. Without a
// method: one poll, None.
[[nodiscard]] PyObject* await_call(PyObject* socket, ready_for what, const char* method,
                                   PyObject* const* args, Py_ssize_t count) noexcept;

}  // namespace ringloop::python
