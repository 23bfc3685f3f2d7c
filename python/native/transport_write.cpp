// Writing: from write() to the kernel. Contract in transport.hpp.
//
// A write joins the transport's pending list and leaves at the end of the turn in one gathered
// send, one in flight per stream. Beyond 32 KiB pending (8 KiB in heavy turns, turn_traffic.hpp; or
// the high-water mark, if lower) the list is sent directly and only what the kernel refused stays
// queued, so that large payloads are not kept alive for a turn and flow control starts only when
// the peer is really behind. Thread: the loop's, GIL held.
#include <algorithm>
#include <cassert>
#include <cerrno>

#include "pinned_buffer.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "transport.hpp"
#include "transport_base.hpp"
#include "transport_names.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr std::size_t direct_bytes = 32 * 1024;
constexpr std::size_t heavy_direct_bytes = 8 * 1024;
constexpr std::size_t pieces_per_send_max = 1024;  // IOV_MAX
constexpr std::size_t borrow_bytes = 4096;         // shorter memoryviews are copied

// Bytes that cannot change any more, and who keeps them alive (null: MemoryError is set).
struct snapshot {
    ref owner;
    const char* data = nullptr;
    std::size_t size = 0;
};

snapshot whole(ref bytes) noexcept {
    if (!bytes) return {};
    const char* data = PyBytes_AS_STRING(bytes.get());
    const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()));
    return {std::move(bytes), data, size};
}

// bytes are shared; a large view of bytes shares them too; everything else is copied now.
snapshot take_snapshot(PyObject* data) noexcept {
    if (PyBytes_CheckExact(data)) return whole(ref::share(data));
    if (PyMemoryView_Check(data) &&
        PyMemoryView_GET_BUFFER(data)->len >= static_cast<Py_ssize_t>(borrow_bytes)) {
        pinned_buffer held;  // a view that was released refuses: its memory may be gone
        if (!held.take(data, PyBUF_FULL_RO)) return {};
        const Py_buffer* view = PyMemoryView_GET_BUFFER(data);
        if (view->obj != nullptr && PyBytes_CheckExact(view->obj) &&
            PyBuffer_IsContiguous(view, 'C')) {
            return {ref::share(view->obj), static_cast<const char*>(view->buf),
                    static_cast<std::size_t>(view->len)};
        }
    }
    return whole(ref::steal(PyBytes_FromObject(data)));
}

bool is_data(PyObject* data) noexcept {
    return PyBytes_Check(data) || PyByteArray_Check(data) || PyMemoryView_Check(data);
}

bool refused_for_file(transport_state& t) noexcept {
    if (t.file_waiter == nullptr) return false;
    PyErr_SetString(PyExc_RuntimeError, "unable to write; sendfile is in progress");
    return true;
}

void on_sent(operation& op, const completion& result) noexcept;

void fly(transport_state& t, piece_list& list) noexcept {
    outgoing& out = *t.out;
    out.message = {};
    out.message.msg_iov = list.front();
    out.message.msg_iovlen = std::min(list.size(), pieces_per_send_max);
    out.send.prepare_send(t.fd, &out.message);
    Py_INCREF(object_of(t));
    io_of(loop_of(t)).submit(out.send);
}

int append(transport_state& t, snapshot piece) noexcept {
    if (t.out == nullptr) {
        t.out = take_outgoing(t, on_sent);
        if (t.out == nullptr) return -1;
    }
    outgoing& out = *t.out;
    if (!out.pending().merge(piece.data, piece.size)) {
        if (!out.pending().add(piece.owner.release(), piece.data, piece.size)) {
            if (out.bytes == 0) give_outgoing(std::exchange(t.out, nullptr));
            return -1;
        }
    }
    out.bytes += piece.size;
    return 0;
}

// Sends the pending list directly. 0, or a negated errno that is not "try later".
int send_pending(transport_state& t) noexcept {
    outgoing& out = *t.out;
    driver& io = io_of(loop_of(t));
    while (!out.pending().empty()) {
        const std::size_t pieces = std::min(out.pending().size(), pieces_per_send_max);
        std::size_t asked = 0;
        for (std::size_t i = 0; i < pieces; ++i) asked += out.pending().front()[i].iov_len;
        const ssize_t sent = io.try_send(t.fd, {out.pending().front(), pieces});
        if (sent == -EINTR) continue;
        if (sent == -EAGAIN) return 0;
        if (sent < 0) return static_cast<int>(sent);
        out.pending().consume(static_cast<std::size_t>(sent));
        out.bytes -= static_cast<std::size_t>(sent);
        if (static_cast<std::size_t>(sent) < asked) return 0;
    }
    return 0;
}

int write_error(transport_state& t, int error) noexcept {
    transport_drop_queued(t, false);
    bridge::raise_errno(error);
    return transport_fatal_error(t, "Fatal write error on socket transport");
}

// After something was appended: direct send if it is much, else the turn's end; then flow control.
int written(transport_state& t) noexcept {
    outgoing& out = *t.out;
    const std::size_t most = traffic_of(loop_of(t)).heavy() ? heavy_direct_bytes : direct_bytes;
    if (!out.send.in_flight() && out.bytes > std::min(most, high_water(object_of(t)))) {
        const int error = send_pending(t);
        if (error < 0) return write_error(t, error);
        if (out.bytes == 0) {
            give_outgoing(std::exchange(t.out, nullptr));
            return 0;
        }
    }
    if (!out.send.in_flight()) transport_at_turn_end(t);
    return maybe_pause(object_of(t), transport_queued_bytes(t), t.context);
}

// protocol.resume_writing(), if it waits for that: at once, or in the loop's next run.
int resume_protocol(transport_state& t, bool later) noexcept {
    if (!protocol_paused(object_of(t))) return 0;
    const ref resume =
        ref::steal(PyObject_GetAttr(object_of(t), names()._maybe_resume_protocol));
    if (!resume) return -1;
    if (later) return loop_call_soon(loop_of(t), resume.get(), nullptr, t.context);
    context_scope scope(t);
    return ref::steal(PyObject_CallNoArgs(resume.get())) ? 0 : -1;
}

// Room was made: the protocol may go on, a closing transport may end.
void after_progress(transport_state& t, bool run_ends) noexcept {
    if (resume_protocol(t, run_ends) < 0)
        transport_failed(t, "protocol.resume_writing() failed");
    if (t.out != nullptr || t.connection_lost_count > 0) return;
    const int result = t.file_waiter != nullptr ? transport_finish_file_waiter(t, false)
                                                : transport_queue_ended(t);
    if (result < 0) transport_failed(t, "Fatal write error on socket transport");
}

// What is queued goes nowhere: a negated errno says why.
void send_failed(transport_state& t, int error) noexcept {
    give_outgoing(std::exchange(t.out, nullptr));
    if (t.connection_lost_count > 0) return;
    bridge::raise_errno(error);
    transport_failed(t, "Fatal write error on socket transport");
}

void sent_some(transport_state& t, int result) noexcept {
    outgoing& out = *t.out;
    const bool run_ends = std::exchange(out.run_ends, false);
    if (result == -ECANCELED && out.send.cancel_requested && !run_ends) {
        give_outgoing(std::exchange(t.out, nullptr));
        return;
    }
    // Cancelled for another reason (the run has ended, or the thread that submitted it): nothing
    // was sent, as by EAGAIN.
    if (result < 0 && result != -EAGAIN && result != -EINTR && result != -ECANCELED)
        return send_failed(t, result);
    const auto bytes = static_cast<std::size_t>(std::max(result, 0));
    out.flight().consume(bytes);
    out.bytes -= bytes;
    if (run_ends && out.flight().empty()) {
        if (const int error = send_pending(t); error < 0) return send_failed(t, error);
    }
    if (out.bytes == 0 || t.connection_lost_count > 0 || !io_usable(t)) {
        // Being closed: what a later turn wrote has waited behind this send. One direct attempt.
        const bool whole = out.flight().empty() && t.connection_lost_count == 0;
        if (whole && loop_of(t) != nullptr) (void)send_pending(t);
        give_outgoing(std::exchange(t.out, nullptr));
        if (!io_usable(t)) return;
    } else if (!out.flight().empty()) {
        fly(t, out.flight());
    } else {
        transport_send_queued(t);
    }
    after_progress(t, run_ends);
}

void on_sent(operation& op, const completion& result) noexcept {
    auto& out =
        *reinterpret_cast<outgoing*>(reinterpret_cast<char*>(&op) - offsetof(outgoing, send));
    transport_state& t = *out.owner;
    assert(t.out == &out);
    sent_some(t, result.result);
    Py_DECREF(object_of(t));  // the reference of the send that ended
}

}  // namespace

std::size_t transport_queued_bytes(const transport_state& t) noexcept {
    return t.out != nullptr ? t.out->bytes : 0;
}

namespace {

// Behind the end of the loop there is one attempt through the Python socket, as in asyncio.
int write_without_loop(transport_state& t, PyObject* data) noexcept {
    PyObject* socket = t.fd_open && t.out == nullptr ? transport_socket(t) : nullptr;
    if (socket == nullptr) {
        if (PyErr_Occurred() == nullptr)
            PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return -1;
    }
    ref module = ref::steal(PyImport_ImportModule("ringloop._extras"));
    ref done =
        module
            ? ref::steal(PyObject_CallMethod(module.get(), "send_without_loop", "OO", socket, data))
            : ref();
    return done ? 0 : -1;
}

}  // namespace

int transport_write(transport_state& t, PyObject* data) noexcept {
    if (!is_data(data)) {
        PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not '%s'",
                     Py_TYPE(data)->tp_name);
        return -1;
    }
    if (t.write_ended) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot call write() after write_eof()");
        return -1;
    }
    if (refused_for_file(t)) return -1;
    snapshot piece = take_snapshot(data);
    if (!piece.owner) return -1;
    if (piece.size == 0) return 0;
    if (t.connection_lost_count > 0) {
        write_to_lost(t.connection_lost_count);
        return 0;
    }
    if (t.refusing) return 0;
    if (!io_usable(t)) return write_without_loop(t, piece.owner.get());
    if (append(t, std::move(piece)) < 0) return -1;
    return written(t);
}

int transport_writelines(transport_state& t, PyObject* lines) noexcept {
    if (t.write_ended) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot call writelines() after write_eof()");
        return -1;
    }
    if (refused_for_file(t)) return -1;
    ref iterator = ref::steal(PyObject_GetIter(lines));
    if (!iterator) return -1;
    bool appended = false;
    while (ref line = ref::steal(PyIter_Next(iterator.get()))) {
        if (!is_data(line.get())) {
            PyErr_Format(PyExc_TypeError, "memoryview: a bytes-like object is required, not '%s'",
                         Py_TYPE(line.get())->tp_name);
            break;
        }
        snapshot piece = take_snapshot(line.get());
        if (!piece.owner) break;
        if (piece.size == 0 || t.refusing) continue;
        if (t.connection_lost_count > 0) {
            write_to_lost(t.connection_lost_count);
            continue;
        }
        if (!io_usable(t)) {
            PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
            break;
        }
        if (append(t, std::move(piece)) < 0) break;
        appended = true;
    }
    ref error = bridge::take_exception();
    if (appended && t.out != nullptr && written(t) < 0) return -1;
    if (!error) return 0;
    bridge::restore_exception(std::move(error));
    return -1;
}

int transport_write_eof(transport_state& t) noexcept {
    if (t.closing || t.write_ended) return 0;
    t.write_ended = true;
    return write_side_busy(t) ? 0 : transport_queue_ended(t);
}

int transport_queue_ended(transport_state& t) noexcept {
    if (t.connection_lost_count > 0 || !io_usable(t)) return 0;
    if (t.closing) return transport_schedule_lost(t, Py_None);
    if (!t.write_ended) return 0;
    const int error = io_of(loop_of(t)).shutdown(t.fd, SHUT_WR);
    if (error == 0) return 0;
    bridge::raise_errno(error);
    return -1;
}

void transport_send_queued(transport_state& t) noexcept {
    if (t.out == nullptr || t.out->send.in_flight()) return;
    outgoing& out = *t.out;
    if (!io_usable(t)) {
        if (loop_of(t) != nullptr && out.flight().empty()) (void)send_pending(t);
        t.refusing = t.refusing || out.bytes > 0;  // what comes later must not leave without it
        give_outgoing(std::exchange(t.out, nullptr));
        return;
    }
    if (!out.flight().empty()) {  // the rest of a send that was cut short
        fly(t, out.flight());
        return;
    }
    out.filling ^= 1;
    fly(t, out.flight());
}

int transport_send_now(transport_state& t) noexcept {
    if (t.out == nullptr || t.out->send.in_flight() || !t.out->flight().empty() ||
        protocol_paused(object_of(t)) || !io_usable(t)) {
        return 0;
    }
    const int error = send_pending(t);
    if (error < 0) return write_error(t, error);
    if (t.out->bytes > 0) return 0;
    give_outgoing(std::exchange(t.out, nullptr));
    return t.file_waiter == nullptr ? transport_queue_ended(t) : 0;
}

void transport_send_behind(transport_state& t) noexcept {
    if (t.out == nullptr || !t.out->send.in_flight() || t.out->pending().empty()) return;
    t.out->run_ends = true;
    io_of(loop_of(t)).retire(t.out->send);  // on_sent() goes on, with what waited
}

void transport_drop_queued(transport_state& t, bool try_first) noexcept {
    if (t.out == nullptr) return;
    outgoing& out = *t.out;
    const bool flying = out.send.in_flight();
    if (!flying && try_first && out.flight().empty() && io_usable(t)) (void)send_pending(t);
    if (!flying) {
        give_outgoing(std::exchange(t.out, nullptr));
        return;
    }
    for (std::size_t i = 0; i < out.pending().size(); ++i) {
        out.bytes -= out.pending().front()[i].iov_len;
    }
    out.pending().clear();
    if (io_usable(t)) io_of(loop_of(t)).cancel(out.send);
}

PyObject* transport_queued_list(const transport_state& t) noexcept {
    ref list = ref::steal(PyList_New(0));
    if (!list || t.out == nullptr) return list.release();
    for (const piece_list& pieces : t.out->lists) {
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const iovec& piece = pieces.front()[i];
            ref bytes = ref::steal(PyBytes_FromStringAndSize(
                static_cast<const char*>(piece.iov_base), static_cast<Py_ssize_t>(piece.iov_len)));
            if (!bytes || PyList_Append(list.get(), bytes.get()) < 0) return nullptr;
        }
    }
    return list.release();
}

}  // namespace ringloop::python
