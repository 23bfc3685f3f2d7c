// Receiving: from a completion to the protocol. Contract in transport.hpp.
//
// Small traffic: multishot receive into the driver's pool, one copy into a bytes object, the buffer
// goes back before the protocol is called. Large messages: multishot poll and a non-blocking read
// into one hot scratch buffer (the kernel would otherwise fill cold pool buffers for all
// connections first). The kind follows what arrives and changes by cancelling one operation and
// arming the other. Thread: the loop's, GIL held. Callbacks of the protocol run in the connection's
// context.
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>

#include "ringloop/bridge/python/errors.hpp"
#include "streams.hpp"
#include "tls.hpp"
#include "transport.hpp"
#include "transport_names.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr std::size_t large_bytes = 32 * 1024;  // three such receives in a row: poll
constexpr std::size_t small_bytes = 16 * 1024;  // eight such reads in a row: receive again
// The same in heavy turns (turn_traffic.hpp).
constexpr std::size_t heavy_large_bytes = 8 * 1024;
constexpr std::size_t heavy_small_bytes = 4 * 1024;
constexpr std::uint8_t large_run_max = 3;
constexpr std::uint8_t small_run_max = 8;
constexpr std::size_t scratch_bytes = 256 * 1024;
// What one event brings of one connection, before the others have their turn.
constexpr int reads_per_event_max = 8;
constexpr std::size_t bytes_per_event_max = scratch_bytes;
constexpr int end_events = POLLRDHUP | POLLHUP | POLLERR;

char* scratch() noexcept {
    thread_local std::unique_ptr<char[]> memory(new char[scratch_bytes]);
    return memory.get();
}

// Looked up at each call, as asyncio does: protocols that are state machines assign their methods
// anew.
ref call_protocol(transport_state& t, PyObject* name, PyObject* argument) noexcept {
    ref protocol = ref::share(t.protocol);
    return ref::steal(PyObject_CallMethodOneArg(protocol.get(), name, argument));
}

bool wants_reading(const transport_state& t) noexcept {
    return t.started && !t.paused && t.held == nullptr && !t.closing && !t.read_ended &&
           t.connection_lost_count == 0;
}

// ---- the two kinds

void note_size(transport_state& t, std::size_t size) noexcept {
    turn_traffic& traffic = traffic_of(loop_of(t));
    traffic.add(size);
    const bool heavy = traffic.heavy();
    if (!t.polling) {
        const std::size_t large = heavy ? heavy_large_bytes : large_bytes;
        t.large_run = size >= large ? static_cast<std::uint8_t>(t.large_run + 1) : 0;
        if (t.large_run < large_run_max) return;
        t.polling = true;
    } else {
        const std::size_t small = heavy ? heavy_small_bytes : small_bytes;
        t.small_run = size < small ? static_cast<std::uint8_t>(t.small_run + 1) : 0;
        if (t.small_run < small_run_max) return;
        t.polling = false;
    }
    t.large_run = 0;
    t.small_run = 0;
    if (t.receive.in_flight()) io_of(loop_of(t)).cancel(t.receive);
}

// ---- delivery to the protocol

void hold(transport_state& t, const char* data, std::size_t size) noexcept {
    ref bytes = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    if (t.held == nullptr) t.held = PyList_New(0);
    if (!bytes || t.held == nullptr || PyList_Append(t.held, bytes.get()) < 0) {
        transport_failed(t, "Fatal error: received data could not be kept.");
    }
}

void deliver_data(transport_state& t, PyObject* bytes) noexcept {
    ref done = call_protocol(t, names().data_received, bytes);
    if (!done) transport_failed(t, "Fatal error: protocol.data_received() call failed.");
}

// protocol.get_buffer(-1), exported for writing. False: the connection has been failed.
bool borrow_buffer(transport_state& t, Py_buffer& view) noexcept {
    static PyObject* const any_size = PyLong_FromLong(-1);
    ref buffer = call_protocol(t, names().get_buffer, any_size);
    if (buffer && PyObject_GetBuffer(buffer.get(), &view, PyBUF_WRITABLE) == 0) {
        if (view.len > 0) return true;
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
    }
    transport_failed(t, "Fatal error: protocol.get_buffer() call failed.");
    return false;
}

bool tell_updated(transport_state& t, std::size_t size) noexcept {
    ref number = ref::steal(PyLong_FromSize_t(size));
    ref done = number ? call_protocol(t, names().buffer_updated, number.get()) : ref();
    if (!done) transport_failed(t, "Fatal error: protocol.buffer_updated() call failed.");
    return static_cast<bool>(done);
}

// Copies to the protocol's buffers until all is delivered; returns what was taken.
std::size_t deliver_buffered(transport_state& t, const char* data, std::size_t size) noexcept {
    const ref asked = ref::share(t.protocol);
    Py_buffer view;
    if (!borrow_buffer(t, view)) return size;
    if (t.protocol !=
        asked.get()) {  // replaced by its own get_buffer(): the data is the next one's
        PyBuffer_Release(&view);
        return 0;
    }
    const std::size_t taken = std::min(size, static_cast<std::size_t>(view.len));
    std::memcpy(view.buf, data, taken);
    PyBuffer_Release(&view);
    return tell_updated(t, taken) ? taken : size;
}

void deliver_to_stream(transport_state& t, const char* data, std::size_t size) noexcept {
    const fed how = stream_feed(reinterpret_cast<stream_link*>(t.reader), data, size);
    if (how == fed::failed || (how == fed::above_limit && transport_pause_reading(t) < 0))
        transport_failed(t, "Fatal error: the stream's buffer could not take data.");
}

// `taken`: what tls_take() said.
void deliver_to_tls(transport_state& t, PyObject* tls, int taken) noexcept {
    if (taken < 0 || tls_advance(tls) < 0)
        transport_failed(t, "Fatal error: TLS could not take data.");
}

bool deaf(transport_state& t) noexcept {  // no more data is for this protocol
    return t.closing || t.connection_lost_count > 0 || !io_usable(t);
}

// Everything but the plain case: pieces, reading paused meanwhile, protocol changed meanwhile.
void deliver_slowly(transport_state& t, const char* data, std::size_t size) noexcept {
    t.in_pieces = true;
    while (size > 0 && !deaf(t)) {
        if (t.paused || t.held != nullptr) {
            hold(t, data, size);
            break;
        }
        std::size_t taken = size;
        if (t.kind == feed::buffered) {
            taken = deliver_buffered(t, data, size);
        } else if (t.kind == feed::stream) {
            deliver_to_stream(t, data, size);
        } else if (t.kind == feed::tls) {
            const ref tls = ref::share(t.protocol);
            deliver_to_tls(t, tls.get(), tls_take(tls.get(), data, size));
        } else {
            ref bytes = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
            if (bytes) {
                deliver_data(t, bytes.get());
            } else {
                transport_failed(t, "Fatal read error on socket transport");
            }
        }
        data += taken;
        size -= taken;
    }
    t.in_pieces = false;
}

void deliver_end(transport_state& t) noexcept {
    ref protocol = ref::share(t.protocol);
    ref keep_open = ref::steal(PyObject_CallMethodNoArgs(protocol.get(), names().eof_received));
    const int open = keep_open ? PyObject_IsTrue(keep_open.get()) : -1;
    if (open < 0) {
        transport_failed(t, "Fatal error: protocol.eof_received() call failed.");
    } else if (open == 0 && transport_close(t) < 0) {
        transport_failed(t, "Fatal error on transport");
    }
}

void deliver_error(transport_state& t, int error) noexcept {
    bridge::raise_errno(error);
    transport_failed(t, "Fatal read error on socket transport");
}

// The reading side ended: `result` is 0 or a negated errno.
void read_side_ended(transport_state& t, int result) noexcept {
    t.read_ended = true;
    if (deaf(t)) return;
    if (t.paused || t.held != nullptr) {
        t.held_end = result;
        return;
    }
    context_scope scope(t);
    result == 0 ? deliver_end(t) : deliver_error(t, result);
}

// ---- completions

// Data in a buffer of the pool: the buffer goes back before the protocol runs, if it can.
void on_data(transport_state& t, const completion& result) noexcept {
    driver& io = io_of(loop_of(t));
    const char* data = reinterpret_cast<const char*>(io.buffer(result.buffer));
    const auto size = static_cast<std::size_t>(result.result);
    if (deaf(t)) {
        io.release_buffer(result.buffer);
        return;
    }
    note_size(t, size);
    if (t.kind == feed::data && !t.paused && t.held == nullptr) {
        ref bytes = ref::steal(PyBytes_FromStringAndSize(data, result.result));
        io.release_buffer(result.buffer);
        context_scope scope(t);
        if (bytes) {
            deliver_data(t, bytes.get());
        } else {
            transport_failed(t, "Fatal read error on socket transport");
        }
        return;
    }
    if (t.kind == feed::tls && !t.paused && t.held == nullptr) {
        const ref tls = ref::share(t.protocol);
        const int taken = tls_take(tls.get(), data, size);
        io.release_buffer(result.buffer);
        context_scope scope(t);
        deliver_to_tls(t, tls.get(), taken);
        return;
    }
    ref keep_loop = ref::share(reinterpret_cast<PyObject*>(loop_of(t)));
    if (t.kind == feed::stream && !t.paused && t.held == nullptr) {
        deliver_to_stream(t, data, size);  // runs no code of the user's: no context needed
    } else {
        context_scope scope(t);
        deliver_slowly(t, data, size);
    }
    io.release_buffer(result.buffer);
}

void on_received(transport_state& t, const completion& result) noexcept {
    if (result.buffer != no_buffer) {
        on_data(t, result);
    } else if (result.result == 0) {
        read_side_ended(t, 0);
    } else if (result.result < 0 && result.result != -ECANCELED) {
        read_side_ended(t, result.result);
    }
}

// One read where the next byte is wanted. > 0: bytes delivered; 0: nothing more for now (or ended).
std::size_t read_once(transport_state& t, bool& full) noexcept {
    Py_buffer view;
    const bool borrowed = t.kind == feed::buffered;
    const ref asked = ref::share(t.protocol);
    if (borrowed && !borrow_buffer(t, view)) return 0;
    if (borrowed && t.protocol != asked.get() && !deaf(t)) {  // replaced by its own get_buffer()
        PyBuffer_Release(&view);
        return read_once(t, full);
    }
    iovec piece = borrowed ? iovec{view.buf, static_cast<std::size_t>(view.len)}
                           : iovec{scratch(), scratch_bytes};
    const bool still = !deaf(t);  // get_buffer() may have closed it
    ssize_t count = -EAGAIN;
    if (still) {
        do {
            count = io_of(loop_of(t)).try_receive(t.fd, {&piece, 1});
        } while (count == -EINTR);
    }
    if (borrowed) PyBuffer_Release(&view);
    if (count == -EAGAIN) return 0;
    if (count <= 0) {
        read_side_ended(t, static_cast<int>(count));
        return 0;
    }
    const auto size = static_cast<std::size_t>(count);
    full = size == piece.iov_len;
    note_size(t, size);
    if (borrowed) {
        (void)tell_updated(t, size);
    } else {
        deliver_slowly(t, scratch(), size);
    }
    return size;
}

void on_readable(transport_state& t, const completion& result) noexcept {
    if (result.result < 0) {
        if (result.result != -ECANCELED) read_side_ended(t, result.result);
        return;
    }
    std::size_t bytes = 0;
    for (int reads = 1;; ++reads) {
        if (!wants_reading(t) || !io_usable(t)) return;
        bool full = false;
        {
            context_scope scope(t);
            const std::size_t size = read_once(t, full);
            if (size == 0) break;
            bytes += size;
        }
        // A short read has emptied the socket; its end, if that was reported, is still to be read.
        if (!full && (result.result & end_events) == 0) break;
        if (reads < reads_per_event_max && bytes < bytes_per_event_max) continue;
        // More is there, others are waiting: arming anew reports it again.
        if (t.receive.in_flight() && io_usable(t)) io_of(loop_of(t)).cancel(t.receive);
        break;
    }
    if (t.read_ended) transport_update_reading(t);
}

}  // namespace

void transport_on_receive(operation& op, const completion& result) noexcept {
    auto& t = *reinterpret_cast<transport_state*>(reinterpret_cast<char*>(&op) -
                                                  offsetof(transport_state, receive));
    if (op.code == op_code::poll) {
        on_readable(t, result);
    } else {
        on_received(t, result);
    }
    if (result.more) return;
    transport_update_reading(t);
    Py_DECREF(object_of(t));  // the reference of the operation that ended
}

void transport_update_reading(transport_state& t) noexcept {
    if (!io_usable(t)) return;
    driver& io = io_of(loop_of(t));
    if (t.receive.in_flight()) {
        if (!wants_reading(t) && !t.receive.cancel_requested) io.cancel(t.receive);
        return;  // cancelled but wanted again: its last completion comes back here
    }
    if (!wants_reading(t)) return;
    if (t.polling) {
        t.receive.prepare_poll(t.fd, POLLIN | POLLRDHUP, true);
    } else {
        t.receive.prepare_receive(t.fd, true);
    }
    Py_INCREF(object_of(t));
    io.submit(t.receive);
}

int transport_pause_reading(transport_state& t) noexcept {
    if (t.closing || t.paused) return 0;
    t.paused = true;
    transport_update_reading(t);
    if (loop_debug(loop_of(t))) transport_log("debug", "%r pauses reading", object_of(t));
    return 0;
}

int transport_resume_reading(transport_state& t) noexcept {
    if (t.closing || !t.paused) return 0;
    t.paused = false;
    loop_object* loop = loop_of(t);
    if (t.held != nullptr || t.held_end != nothing_held) {
        ref deliver = ref::steal(PyObject_GetAttr(object_of(t), names()._deliver_held));
        if (!deliver || loop_call_soon(loop, deliver.get(), nullptr, t.context) < 0) return -1;
    }
    transport_update_reading(t);
    if (loop_debug(loop)) transport_log("debug", "%r resumes reading", object_of(t));
    return 0;
}

// _deliver_held(): a handle in the connection's context, behind resume_reading(). What arrived
// while reading was paused comes first, then the end that was seen meanwhile.
PyObject* transport_deliver_held(PyObject* self, PyObject*) noexcept {
    transport_state& t = state_of(self);
    while (t.held != nullptr && !t.paused && !deaf(t)) {
        if (PyList_GET_SIZE(t.held) == 0) {
            Py_CLEAR(t.held);
            break;
        }
        ref bytes = ref::share(PyList_GET_ITEM(t.held, 0));
        if (PyList_SetSlice(t.held, 0, 1, nullptr) < 0) {
            transport_failed(t, "Fatal error: held data could not be taken.");
            break;
        }
        if (t.kind == feed::data) {
            deliver_data(t, bytes.get());
            continue;
        }
        ref rest =
            ref::steal(t.held);  // a piece that is paused in its middle goes back to the front
        t.held = nullptr;
        deliver_slowly(t, PyBytes_AS_STRING(bytes.get()),
                       static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get())));
        if (deaf(t)) break;
        if (t.held == nullptr) {
            t.held = rest.release();
        } else if (PyList_SetSlice(t.held, PyList_GET_SIZE(t.held), PyList_GET_SIZE(t.held),
                                   rest.get()) < 0) {
            transport_failed(t, "Fatal error: received data could not be kept.");
        }
    }
    if (t.held == nullptr && t.held_end != nothing_held && !t.paused && !deaf(t)) {
        const int end = std::exchange(t.held_end, nothing_held);
        end == 0 ? deliver_end(t) : deliver_error(t, end);
    }
    if (!deaf(t)) transport_update_reading(t);
    Py_RETURN_NONE;
}

}  // namespace ringloop::python
