// What SocketTransport and DatagramTransport do alike: the slots of asyncio's _FlowControlMixin,
// the type object around our state, the first callbacks, flow control, the report of a failure.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <cstdint>

#include "loop.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

// Of a new transport; `extra` may be null.
void fill_base_slots(PyObject* self, loop_object* loop, PyObject* extra) noexcept;
int visit_base_slots(PyObject* self, visitproc visit, void* arg) noexcept;
void clear_base_slots(PyObject* self) noexcept;

// connection_made(), then self._start_reading(waiter), as handles in `context`. 0, or -1 with an
// exception set.
int schedule_start(loop_object* loop, PyObject* self, PyObject* protocol, PyObject* context,
                   PyObject* waiter) noexcept;
// The end of _start_reading([waiter]): tells who waits for the transport. Null with an exception
// set on failure.
PyObject* tell_waiter(PyObject* const* arguments, Py_ssize_t count) noexcept;
// loop.call_exception_handler(). 0, or -1 with what it raised.
int report_failure(loop_object* loop, const char* message, PyObject* exception, PyObject* transport,
                   PyObject* protocol) noexcept;
// ---- flow control
inline constexpr std::size_t default_high_water = 64 * 1024;  // bytes, as asyncio's
[[nodiscard]] std::size_t high_water(PyObject* self) noexcept;
[[nodiscard]] bool protocol_paused(PyObject* self) noexcept;
// Pauses the protocol, in `context`, if more than the mark is queued. 0, or -1 with an exception.
int maybe_pause(PyObject* self, std::size_t queued, PyObject* context) noexcept;
// A write behind the end is silent, apart from a warning once it goes on.
void write_to_lost(std::uint32_t& connection_lost_count) noexcept;

// Arguments of _fatal_error(exception, message="Fatal error on transport"): sets the exception and
// returns the message; null with a TypeError set.
const char* take_fatal_error(PyObject* const* arguments, Py_ssize_t count) noexcept;
// ResourceWarning "unclosed transport …", for finalizers; no exception is set afterwards.
void warn_unclosed(PyObject* transport) noexcept;

// A GC heap type over `bases` (a tuple) whose State follows the slots of the first one, at
// `offset`. State has `dict` and `weak_references`; `own` are the type's further slots, ended by
// {0, nullptr}.
template <typename State, std::size_t Count>
bridge::ref make_transport_type(const char* name, PyObject* bases, Py_ssize_t& offset,
                                const PyType_Slot (&own)[Count]) noexcept {
    auto* first = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, 0));
    constexpr Py_ssize_t alignment = alignof(State);
    offset = (first->tp_basicsize + alignment - 1) / alignment * alignment;
    static PyMemberDef members[] = {
        {"__dictoffset__", T_PYSSIZET, offset + static_cast<Py_ssize_t>(offsetof(State, dict)),
         READONLY, nullptr},
        {"__weaklistoffset__", T_PYSSIZET,
         offset + static_cast<Py_ssize_t>(offsetof(State, weak_references)), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    PyType_Slot all[Count + 1] = {{Py_tp_members, members}};
    for (std::size_t i = 0; i < Count; ++i) all[i + 1] = own[i];
    PyType_Spec spec = {name, static_cast<int>(offset + sizeof(State)), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        all};
    return bridge::ref::steal(PyType_FromSpecWithBases(&spec, bases));
}

}  // namespace ringloop::python
