// SocketTransport: one connected stream socket under an asyncio protocol.
//
// A GC heap type derived at run time from asyncio.transports._FlowControlMixin; our state follows
// the base's slots at `state_offset`. Accepted connections have no Python socket until someone asks
// for it; write blocks exist only while data waits.
// Lifetime: each operation in flight holds one reference to the transport, dropped after its last
// completion; the descriptor is closed once connection_lost() has run and both operations ended.
// Thread: the loop's, GIL held. Python callbacks run from completion handlers or handles only,
// never inside driver::retire() or a turn-end hook; pause_writing() alone runs inside write().
#pragma once

#include <Python.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

#include "loop.hpp"
#include "owners.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/operation.hpp"

namespace ringloop::python {

struct outgoing;  // transport_queue.hpp

// How received bytes reach the protocol.
enum class feed : std::uint8_t {
    data,      // protocol.data_received(bytes)
    buffered,  // protocol.get_buffer(-1), buffer_updated(n)
    stream,    // straight into a stock StreamReader's buffer (streams.hpp)
    tls,       // straight into ringloop.tls.SSLProtocol (tls.hpp)
};

// What reading stopped at, while the protocol could not be told (reading paused).
inline constexpr int nothing_held = 1;  // else 0: end of stream, < 0: negated errno

// An address as the kernel gave it, kept since it cannot be asked for after a reset or a close.
struct kept_address {
    sockaddr_in6 address{};
    socklen_t size = 0;  // 0: not known, or a path too long for here: that is in `_extra`
};

struct transport_state {
    operation receive;  // multishot receive, or multishot poll while messages are large
    turn_end_hook turn_end;
    PyObject* protocol = nullptr;  // null: disconnected
    PyObject* context = nullptr;   // every callback of this connection runs in it
    PyObject* reader = nullptr;    // stream only: its stream_link
    PyObject* socket = nullptr;    // the Python socket, if there is one
    PyObject* server = nullptr;
    PyObject* held = nullptr;  // list of bytes that arrived while reading was paused
    // The future that sendfile() waits on, while it has the connection's write side to itself.
    PyObject* file_waiter = nullptr;
    outgoing* out = nullptr;  // null: nothing waits to be sent
    PyObject* dict = nullptr;
    PyObject* weak_references = nullptr;
    kept_address peer;
    kept_address local;
    int fd = -1;
    int held_end = nothing_held;
    std::uint32_t connection_lost_count = 0;  // > 0: connection_lost() is scheduled or done
    feed kind = feed::data;
    std::uint8_t large_run = 0;  // receives in a row of at least large_bytes
    std::uint8_t small_run = 0;  // polled reads in a row below small_bytes
    bool started = false;        // connection_made() has run
    bool polling = false;        // wanted kind of `receive`: poll
    bool paused = false;
    bool closing = false;
    bool refusing = false;     // closed with nothing but this turn's writes: later ones are dropped
    bool in_pieces = false;    // data is being handed over piece by piece
    bool read_ended = false;   // end of stream or error seen
    bool write_ended = false;  // write_eof() was called
    bool fd_open = false;      // `fd` is ours to close
};

extern PyTypeObject* transport_type;
extern Py_ssize_t state_offset;

[[nodiscard]] inline bool is_transport(PyObject* object) noexcept {
    return Py_IS_TYPE(object, transport_type);
}
[[nodiscard]] inline transport_state& state_of(PyObject* transport) noexcept {
    return *reinterpret_cast<transport_state*>(reinterpret_cast<char*>(transport) + state_offset);
}
[[nodiscard]] inline PyObject* object_of(transport_state& t) noexcept {
    return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(&t) - state_offset);
}

// The base's slots, by their offset in the object.
struct base_slots {
    Py_ssize_t extra = 0;
    Py_ssize_t loop = 0;
    Py_ssize_t protocol_paused = 0;
    Py_ssize_t high_water = 0;
    Py_ssize_t low_water = 0;
};
extern base_slots slots;
[[nodiscard]] inline PyObject*& slot(PyObject* transport, Py_ssize_t offset) noexcept {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(transport) + offset);
}
// Null once the connection is lost.
[[nodiscard]] inline loop_object* loop_of(transport_state& t) noexcept {
    PyObject* loop = slot(object_of(t), slots.loop);
    return loop == Py_None ? nullptr : reinterpret_cast<loop_object*>(loop);
}
// Whether operations can still be submitted.
[[nodiscard]] inline bool io_usable(transport_state& t) noexcept {
    loop_object* loop = loop_of(t);
    return loop != nullptr && !loop_is_closed(loop);
}

// In debug mode: false with AffinityError set, the loop runs in another thread. `what` was called.
[[nodiscard]] inline bool on_its_thread(PyObject* transport, const char* what) noexcept {
    PyObject* loop = slot(transport, slots.loop);
    if (loop == nullptr || loop == Py_None || !loop_debug(reinterpret_cast<loop_object*>(loop)))
        return true;
    return check_thread(reinterpret_cast<loop_object*>(loop), what) == 0;
}

// What methods and attributes of a transport return.
[[nodiscard]] inline PyObject* none_or_error(int result) noexcept {
    return result < 0 ? nullptr : Py_NewRef(Py_None);
}
[[nodiscard]] inline PyObject* none_or(PyObject* object) noexcept {
    return Py_NewRef(object != nullptr ? object : Py_None);
}

// Callbacks of a connection run in its context. A context that is entered already (a loop run
// inside a callback) is left as it is.
class context_scope {
  public:
    explicit context_scope(transport_state& t) noexcept : context_scope(t.context) {}
    explicit context_scope(PyObject* context) noexcept : context_(bridge::ref::share(context)) {
        entered_ = context_ && PyContext_Enter(context_.get()) == 0;
        if (!entered_) PyErr_Clear();
    }
    context_scope(const context_scope&) = delete;
    context_scope& operator=(const context_scope&) = delete;
    ~context_scope() {
        if (!entered_) return;
        bridge::ref error = bridge::take_exception();
        if (PyContext_Exit(context_.get()) < 0) PyErr_WriteUnraisable(context_.get());
        if (error) bridge::restore_exception(std::move(error));
    }

  private:
    bridge::ref context_;
    bool entered_ = false;
};

// ---- transport.cpp: life
// A transport over `fd` with connection_made() scheduled. `sock`, `extra`, `server`, `waiter` may
// be null. `context` is shared by the connection's callbacks (null: a copy of the current one).
// Takes the descriptor on success only. Null with an exception set on failure.
[[nodiscard]] PyObject* make_transport(loop_object* loop, int fd, PyObject* sock,
                                       PyObject* protocol, PyObject* waiter, PyObject* extra,
                                       PyObject* server, PyObject* context) noexcept;
// The same without connection_made(): the caller calls it, and transport_start_reading() then.
[[nodiscard]] PyObject* prepare_transport(loop_object* loop, int fd, PyObject* sock,
                                          PyObject* protocol, PyObject* extra, PyObject* server,
                                          PyObject* context) noexcept;
void transport_set_protocol(transport_state& t, PyObject* protocol) noexcept;
int transport_close(transport_state& t) noexcept;
// Drops what is queued and schedules connection_lost(exception); `exception` may be None.
int transport_force_close(transport_state& t, PyObject* exception) noexcept;
// Takes the exception that is set: reports it as asyncio does and closes. 0, or -1 with another
// exception set (SystemExit from an exception handler).
int transport_fatal_error(transport_state& t, const char* message) noexcept;
// For completion handlers: what a callback raised ends the run, or this connection.
void transport_failed(transport_state& t, const char* message) noexcept;
int transport_schedule_lost(transport_state& t, PyObject* exception) noexcept;
PyObject* transport_call_connection_lost(PyObject* self, PyObject* exception) noexcept;
PyObject* transport_start_reading(PyObject* self, PyObject* const* arguments,
                                  Py_ssize_t count) noexcept;
// Sends what is queued and arms reading at the end of this turn.
void transport_at_turn_end(transport_state& t) noexcept;
void transport_turn_end(turn_end_hook& hook) noexcept;
void transport_finalize(PyObject* self) noexcept;

// ---- transport_type.cpp
// For the loop's traverse: visits the transport once for each reference that its operations in
// flight and its queued hook hold.
int transport_visit_held(PyObject* self, visitproc visit, void* arg) noexcept;
void list_transport(owner_list& found, PyObject* self) noexcept;

// ---- transport_handover.cpp: a descriptor that changes its owner
// _detach(): (socket, [bytes, …]), nothing is in flight on it any more and connection_lost(None)
// follows. Nothing may wait to be sent. None: a callback of the connection is under way, later.
PyObject* transport_detach(PyObject* self, PyObject*) noexcept;
// _begin(received): connection_made() has run; what it raised is raised, and the connection closed.
// The protocol gets `received` (bytes) first.
PyObject* transport_begin(PyObject* self, PyObject* received) noexcept;
// attach_transport(loop, sock, protocol): a transport that waits for _begin().
PyObject* attach_transport(PyObject* module, PyObject* const* arguments, Py_ssize_t count) noexcept;

// ---- transport_receive.cpp
void transport_on_receive(operation& op, const completion& result) noexcept;
// Arms or cancels `receive` so that it fits the state.
void transport_update_reading(transport_state& t) noexcept;
int transport_pause_reading(transport_state& t) noexcept;
int transport_resume_reading(transport_state& t) noexcept;
PyObject* transport_deliver_held(PyObject* self, PyObject*) noexcept;

// ---- transport_write.cpp
// data: bytes, bytearray or memoryview. 0, or -1 with an exception set.
int transport_write(transport_state& t, PyObject* data) noexcept;
int transport_writelines(transport_state& t, PyObject* lines) noexcept;
int transport_write_eof(transport_state& t) noexcept;
// What follows the last byte that was accepted: what close() or write_eof() asked for.
int transport_queue_ended(transport_state& t) noexcept;
[[nodiscard]] std::size_t transport_queued_bytes(const transport_state& t) noexcept;
// Submits the gathered send of what this turn wrote, unless one is in flight. While the loop is
// being closed: one direct attempt instead.
void transport_send_queued(transport_state& t) noexcept;
// For somebody who uses the socket itself next: what this turn wrote leaves now, as far as nothing
// waits already. 0, or -1 with an exception set.
int transport_send_now(transport_state& t) noexcept;
// A run of the loop ends, and maybe the program: what waits behind the send in flight follows it
// now, as far as the kernel takes it. Callbacks of Python's wait for the next run.
void transport_send_behind(transport_state& t) noexcept;
// One last attempt to send, then everything not in flight is dropped and the send is cancelled.
void transport_drop_queued(transport_state& t, bool try_first) noexcept;
// list of what waits, for `_buffer`.
[[nodiscard]] PyObject* transport_queued_list(const transport_state& t) noexcept;

// ---- transport_file.cpp: sendfile()'s hold on the write side
// Bytes that were accepted, or a file that is on its way.
[[nodiscard]] inline bool write_side_busy(const transport_state& t) noexcept {
    return t.out != nullptr || t.file_waiter != nullptr;
}
// _make_empty_waiter(): a future that is done once nothing is queued; write() is refused until
// _reset_empty_waiter(). RuntimeError while a file is sent already.
PyObject* transport_hold_for_file(PyObject* self, PyObject*) noexcept;
PyObject* transport_end_file(PyObject* self, PyObject*) noexcept;
// _renew_empty_waiter(): a future in its place, which only the caller or the connection's end
// finishes.
PyObject* transport_renew_file_waiter(PyObject* self, PyObject*) noexcept;
// Finishes the waiter, unless it is done: with ConnectionError if the connection is `lost`.
int transport_finish_file_waiter(transport_state& t, bool lost) noexcept;

// ---- transport_info.cpp
// Asks the socket for both of its addresses: once, when the transport is made. 0, or -1 with an
// exception set.
int transport_keep_addresses(transport_state& t) noexcept;
PyObject* transport_get_extra_info(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* names) noexcept;
// The Python socket, made on demand: borrowed, or null with an exception set.
[[nodiscard]] PyObject* transport_socket(transport_state& t) noexcept;
// `_extra` with every standard entry filled in: new reference.
[[nodiscard]] PyObject* transport_extra(PyObject* self) noexcept;
PyObject* transport_repr(PyObject* self) noexcept;
// asyncio.log.logger.<level>(format, …): failures are written as unraisable.
void transport_log(const char* level, const char* format, PyObject* argument) noexcept;

}  // namespace ringloop::python
