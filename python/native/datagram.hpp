// DatagramTransport: one datagram socket (UDP, Unix, or another family's) under an asyncio
// protocol.
//
// A GC heap type derived at run time from asyncio's _FlowControlMixin and DatagramTransport; our
// state follows the bases' slots at `datagram_offset`. Receiving is a one-shot poll that is armed
// again after each bounded batch, so it is level-triggered; the first datagram that a turn sends
// goes to the kernel at once, further ones and the answers to a batch leave together at the end of
// the turn.
// Errors of the kernel's go to protocol.error_received() and the endpoint lives; it ends by itself
// only when its descriptor is gone.
// Lifetime: each operation in flight and the queued turn-end hook hold one reference; the
// descriptor is closed once connection_lost() has run. In a forked child nothing more is sent or
// delivered: it is the parent's. Thread: the loop's, GIL held. Callbacks of the protocol run from
// sendto(), completion handlers or handles only, never inside driver::retire() or a turn-end hook.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "datagram_address.hpp"
#include "datagram_queue.hpp"
#include "loop.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/operation.hpp"
#include "transport.hpp"

namespace ringloop::python {

struct datagram_state {
    operation readable;
    operation writable;  // in flight only while the kernel takes no more
    turn_end_hook turn_end;
    datagram_queue out;
    std::unique_ptr<address_cache> known;
    PyObject* protocol = nullptr;  // null: disconnected
    PyObject* context = nullptr;   // every callback of this endpoint runs in it
    PyObject* socket = nullptr;
    PyObject* remote = nullptr;  // the only address that sendto() takes; null: any
    PyObject* held = nullptr;    // list of (data, address) that came when reading was paused
    PyObject* dict = nullptr;
    PyObject* weak_references = nullptr;
    int fd = -1;
    int family = 0;
    std::uint32_t connection_lost_count = 0;  // > 0: connection_lost() is scheduled or done
    std::uint8_t vain = 0;                    // attempts in a row at a kernel that said "writable"
    bool connected = false;                   // the socket has a peer
    bool started = false;                     // connection_made() has run
    bool paused = false;
    bool closing = false;
    bool delivering = false;  // a batch is being handed to the protocol
    bool blocked = false;     // the kernel takes no more for now
    bool fd_open = false;     // `fd` is ours to close
    bool fd_gone = false;     // closed behind our back: the number may be somebody else's
};

extern PyTypeObject* datagram_type;
extern Py_ssize_t datagram_offset;
extern long live_datagram_transports;

[[nodiscard]] inline datagram_state& datagram_of(PyObject* transport) noexcept {
    return *reinterpret_cast<datagram_state*>(reinterpret_cast<char*>(transport) + datagram_offset);
}
[[nodiscard]] inline PyObject* object_of(datagram_state& t) noexcept {
    return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(&t) - datagram_offset);
}
// Null once the connection is lost.
[[nodiscard]] inline loop_object* loop_of(datagram_state& t) noexcept {
    PyObject* loop = slot(object_of(t), slots.loop);
    return loop == nullptr || loop == Py_None ? nullptr : reinterpret_cast<loop_object*>(loop);
}
[[nodiscard]] inline bool io_usable(datagram_state& t) noexcept {
    loop_object* loop = loop_of(t);
    return loop != nullptr && !loop_is_closed(loop);
}

// Names that this type alone uses.
struct datagram_names {
    PyObject* datagram_received;
    PyObject* error_received;
    PyObject* sendto;
    PyObject* send;
    PyObject* recvfrom;
    PyObject* detach;
    PyObject* _tell_error;
    PyObject* _send_again;
};
[[nodiscard]] datagram_names& datagram_words() noexcept;

// ---- datagram.cpp: life
// datagram_transport(loop, sock, protocol, address, waiter, extra): connection_made() is scheduled.
PyObject* make_datagram_transport(PyObject* module, PyObject* const* arguments,
                                  Py_ssize_t count) noexcept;
int datagram_close(datagram_state& t) noexcept;
// Drops what the kernel does not take at once and schedules connection_lost(exception or None).
int datagram_force_close(datagram_state& t, PyObject* exception) noexcept;
// Takes the exception that is set: reports it as asyncio does and closes. 0, or -1 with another
// exception set (SystemExit from an exception handler).
int datagram_fatal_error(datagram_state& t, const char* message) noexcept;
// For completion handlers: what a callback of the protocol raised (it is set) ends the run, or is
// reported and the endpoint lives. True: it ends the run.
bool datagram_callback_failed(datagram_state& t, const char* message) noexcept;
// If `error` says that the descriptor is gone, and it is: the endpoint ends with an OSError. False:
// an error like any other.
bool datagram_lost_descriptor(datagram_state& t, int error) noexcept;
// protocol.error_received() for a completion handler, in the endpoint's context.
void datagram_tell_failure(datagram_state& t, int error) noexcept;
// A closing endpoint with nothing left to send ends. 0, or -1 with an exception set.
int datagram_end_if_drained(datagram_state& t) noexcept;
PyObject* datagram_call_connection_lost(PyObject* self, PyObject* exception) noexcept;
PyObject* datagram_start_reading(PyObject* self, PyObject* const* arguments,
                                 Py_ssize_t count) noexcept;
void datagram_turn_end(turn_end_hook& hook) noexcept;
void datagram_finalize(PyObject* self) noexcept;
// OSError(error); null with an exception set.
[[nodiscard]] bridge::ref datagram_error(int error) noexcept;
// protocol.error_received(OSError(error)): 0, or -1 with what it raised set.
int datagram_tell(datagram_state& t, int error) noexcept;
PyObject* datagram_tell_error(PyObject* self, PyObject* exception) noexcept;

// ---- datagram_receive.cpp
void datagram_on_readable(operation& op, const completion& result) noexcept;
// Arms the poll if datagrams are wanted.
void datagram_update_reading(datagram_state& t) noexcept;
int datagram_resume_reading(datagram_state& t) noexcept;
PyObject* datagram_deliver_held(PyObject* self, PyObject*) noexcept;

// ---- datagram_send.cpp
PyObject* datagram_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* names) noexcept;
void datagram_on_writable(operation& op, const completion& result) noexcept;
PyObject* datagram_send_again(PyObject* self, PyObject*) noexcept;
// Hands the queue to the kernel until it takes no more, then waits for it. Errors are told to the
// protocol by handles, later this turn.
void datagram_flush(datagram_state& t) noexcept;

// ---- datagram_type.cpp
// For the loop's traverse: visits the transport once for each reference that its operations in
// flight and its queued hook hold.
int datagram_visit_held(PyObject* self, visitproc visit, void* arg) noexcept;
void list_datagram_transport(owner_list& found, PyObject* self) noexcept;
int add_datagram_types(PyObject* module) noexcept;

}  // namespace ringloop::python
