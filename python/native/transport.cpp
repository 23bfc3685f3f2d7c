// Life of a SocketTransport: making, protocol, close, abort, connection_lost. Contract in
// transport.hpp. Thread: the loop's, GIL held.
#include "transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cassert>
#include <new>

#include "files.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "sockets.hpp"
#include "streams.hpp"
#include "tls.hpp"
#include "transport_base.hpp"
#include "transport_names.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {

using bridge::ref;

PyTypeObject* transport_type = nullptr;
Py_ssize_t state_offset = 0;
base_slots slots;

namespace {

// ---- protocol

bool is_buffered(PyObject* protocol) noexcept {
    const int answer = PyObject_IsInstance(protocol, names().buffered_protocol);
    if (answer < 0) PyErr_Clear();
    return answer > 0;
}

bool has_method(PyObject* protocol, PyObject* name) noexcept {
    const ref found = ref::steal(PyObject_GetAttr(protocol, name));
    if (!found) PyErr_Clear();
    return static_cast<bool>(found);
}

int attach_to_server(PyObject* self, PyObject* server) noexcept {
    PyObject* const arguments[2] = {server, self};
    const std::size_t count = names().server_takes_transport ? 2 : 1;
    ref done = ref::steal(PyObject_VectorcallMethod(names()._attach, arguments, count, nullptr));
    return done ? 0 : -1;
}

int detach_from_server(PyObject* self, PyObject* server) noexcept {
    PyObject* const arguments[2] = {server, self};
    const std::size_t count = names().server_takes_transport ? 2 : 1;
    ref done = ref::steal(PyObject_VectorcallMethod(names()._detach, arguments, count, nullptr));
    return done ? 0 : -1;
}

// ---- making

PyObject* allocate(loop_object* loop, PyObject* extra) noexcept {
    PyObject* self = transport_type->tp_alloc(transport_type, 0);
    if (self == nullptr) return nullptr;
    auto* t = new (&state_of(self)) transport_state;
    t->receive.on_complete = transport_on_receive;
    t->receive.host = true;
    t->turn_end.run = transport_turn_end;
    fill_base_slots(self, loop, extra == Py_None ? nullptr : extra);
    ++live_transports;
    return self;
}

// Gives up a transport that make_transport() could not finish; the descriptor stays the caller's.
void discard(loop_object* loop, PyObject* self) noexcept {
    ref error = bridge::take_exception();
    transport_state& t = state_of(self);
    if (t.fd_open) loop_release_fd(loop, t.fd);
    t.fd_open = false;
    if (t.server != nullptr) {
        ref server = ref::steal(std::exchange(t.server, nullptr));
        if (detach_from_server(self, server.get()) < 0) PyErr_WriteUnraisable(self);
    }
    t.closing = true;
    Py_DECREF(self);
    bridge::restore_exception(std::move(error));
}

// ---- the end

// After connection_lost(): nothing of the kernel's may still hold the file, then it is closed.
int close_descriptor(transport_state& t) noexcept {
    if (!t.fd_open) return 0;
    t.fd_open = false;
    loop_object* loop = loop_of(t);
    assert(loop != nullptr);
    const bool usable = !loop_is_closed(loop);
    if (usable) {
        if (t.turn_end.queued) {
            loop_cancel_turn_end(loop, t.turn_end);
            Py_DECREF(object_of(t));  // our caller holds another
        }
        if (t.receive.in_flight()) io_of(loop).retire(t.receive);
        if (t.out != nullptr && t.out->send.in_flight()) io_of(loop).retire(t.out->send);
    }
    if (t.out != nullptr) give_outgoing(std::exchange(t.out, nullptr));
    loop_release_fd(loop, t.fd);
    if (t.socket == nullptr && usable) {
        const int error = io_of(loop).close(t.fd);
        if (error < 0) {
            bridge::raise_errno(error);
            return -1;
        }
        return 0;
    }
    if (t.socket == nullptr) {  // left open until its loop was closed, maybe until the exit
        ringloop::python::close_descriptor(t.fd);
        return 0;
    }
    ref done = ref::steal(PyObject_CallMethodNoArgs(t.socket, names().close));
    return done ? 0 : -1;
}

// Errors of a clean-up never hide the one that is already on its way.
void keep_first(ref& first) noexcept {
    ref now = bridge::take_exception();
    if (!first) {
        first = std::move(now);
    } else if (now) {
        bridge::restore_exception(std::move(now));
        PyErr_WriteUnraisable(nullptr);
    }
}

void forget_protocol(transport_state& t) noexcept {
    Py_CLEAR(t.reader);
    Py_CLEAR(t.held);
    Py_CLEAR(t.protocol);
}

// What a cancelled sock_recv of the same socket has received is this connection's first data.
int take_over_kept(transport_state& t) noexcept {
    ref kept = ref::steal(take_all_kept_bytes(t.socket));
    if (!kept || t.closing) return 0;
    ref deliver = ref::steal(PyObject_GetAttr(object_of(t), names()._deliver_held));
    if (!deliver || loop_call_soon(loop_of(t), deliver.get(), nullptr, t.context) < 0) return -1;
    assert(t.held == nullptr);
    t.held = kept.release();
    return 0;
}

}  // namespace

long live_transports = 0;

void transport_set_protocol(transport_state& t, PyObject* protocol) noexcept {
    // One that has no data_received() but get_buffer() is a buffered one by its shape.
    const bool buffered = is_buffered(protocol) || (!has_method(protocol, names().data_received) &&
                                                    has_method(protocol, names().get_buffer));
    ref reader = ref::steal(std::exchange(t.reader, nullptr));
    ref previous = ref::steal(std::exchange(t.protocol, Py_NewRef(protocol)));
    if (buffered) {
        t.kind = tls_takes_bytes(protocol) ? feed::tls : feed::buffered;
        return;
    }
    t.reader = stream_join(protocol, !t.started && t.connection_lost_count == 0).release();
    t.kind = t.reader != nullptr ? feed::stream : feed::data;
}

PyObject* prepare_transport(loop_object* loop, int fd, PyObject* sock, PyObject* protocol,
                            PyObject* extra, PyObject* server, PyObject* context) noexcept {
    PyObject* self = allocate(loop, extra);
    if (self == nullptr) return nullptr;
    transport_state& t = state_of(self);
    t.fd = fd;
    t.context = context != nullptr ? Py_NewRef(context) : PyContext_CopyCurrent();
    if (t.context == nullptr || loop_claim_fd(loop, fd, self) < 0) {
        discard(loop, self);
        return nullptr;
    }
    t.fd_open = true;
    if (transport_keep_addresses(t) < 0) {
        discard(loop, self);
        return nullptr;
    }
    transport_set_protocol(t, protocol);
    if (server != nullptr && server != Py_None) {
        if (attach_to_server(self, server) < 0) {
            discard(loop, self);
            return nullptr;
        }
        t.server = Py_NewRef(server);
    }
    if (sock != nullptr && sock != Py_None) {
        t.socket = Py_NewRef(sock);
        const int on = 1;  // refused by sockets that are not TCP
        (void)io_of(loop).set_option(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return self;
}

PyObject* make_transport(loop_object* loop, int fd, PyObject* sock, PyObject* protocol,
                         PyObject* waiter, PyObject* extra, PyObject* server,
                         PyObject* context) noexcept {
    PyObject* self = prepare_transport(loop, fd, sock, protocol, extra, server, context);
    if (self == nullptr) return nullptr;
    transport_state& t = state_of(self);
    if (schedule_start(loop, self, t.protocol, t.context, waiter) == 0) return self;
    discard(loop, self);
    return nullptr;
}

// _start_reading(waiter=None): runs behind connection_made(); reading is armed at the end of this
// turn, so that a protocol that closes at once never arms it.
PyObject* transport_start_reading(PyObject* self, PyObject* const* arguments,
                                  Py_ssize_t count) noexcept {
    transport_state& t = state_of(self);
    t.started = true;
    if (t.socket != nullptr && !nothing_kept() && take_over_kept(t) < 0) return nullptr;
    if (io_usable(t) && !t.closing && !t.paused) transport_at_turn_end(t);
    return tell_waiter(arguments, count);
}

void transport_at_turn_end(transport_state& t) noexcept {
    if (t.turn_end.queued) return;
    Py_INCREF(object_of(t));  // the queued hook's own
    loop_at_turn_end(loop_of(t), t.turn_end);
}

void transport_turn_end(turn_end_hook& hook) noexcept {
    auto& t = *reinterpret_cast<transport_state*>(reinterpret_cast<char*>(&hook) -
                                                  offsetof(transport_state, turn_end));
    if (t.out != nullptr) transport_send_queued(t);
    transport_update_reading(t);
    Py_DECREF(object_of(t));
}

int transport_schedule_lost(transport_state& t, PyObject* exception) noexcept {
    ++t.connection_lost_count;
    loop_object* loop = loop_of(t);
    ref lost = ref::steal(PyObject_GetAttr(object_of(t), names()._call_connection_lost));
    if (!lost) return -1;
    return loop_call_soon(loop, lost.get(), exception, t.context);
}

int transport_close(transport_state& t) noexcept {
    if (t.closing) return 0;
    t.closing = true;
    Py_CLEAR(t.held);
    transport_update_reading(t);
    if (write_side_busy(t)) {  // the last send's completion, or the file's end, goes on
        // asyncio would have sent what this turn wrote, and drops what is written from here on.
        t.refusing = t.out == nullptr || !t.out->send.in_flight();
        return 0;
    }
    return transport_schedule_lost(t, Py_None);
}

int transport_force_close(transport_state& t, PyObject* exception) noexcept {
    if (t.connection_lost_count > 0) return 0;
    transport_drop_queued(t, true);
    t.closing = true;
    Py_CLEAR(t.held);
    transport_update_reading(t);
    if (t.file_waiter != nullptr && transport_finish_file_waiter(t, true) < 0) return -1;
    return transport_schedule_lost(t, exception);
}

PyObject* transport_call_connection_lost(PyObject* self, PyObject* exception) noexcept {
    transport_state& t = state_of(self);
    ref error;
    if (t.protocol != nullptr) {
        ref protocol = ref::share(t.protocol);
        PyObject* const arguments[2] = {protocol.get(), exception};
        ref done =
            ref::steal(PyObject_VectorcallMethod(names().connection_lost, arguments, 2, nullptr));
        if (!done) keep_first(error);
    }
    if (close_descriptor(t) < 0) keep_first(error);
    forget_protocol(t);
    PyObject*& loop = slot(self, slots.loop);
    ref previous_loop = ref::steal(std::exchange(loop, Py_NewRef(Py_None)));
    if (t.server != nullptr) {
        ref server = ref::steal(std::exchange(t.server, nullptr));
        if (detach_from_server(self, server.get()) < 0) keep_first(error);
    }
    if (error) {
        bridge::restore_exception(std::move(error));
        return nullptr;
    }
    Py_RETURN_NONE;
}

int transport_fatal_error(transport_state& t, const char* message) noexcept {
    ref error = bridge::take_exception();
    loop_object* loop = loop_of(t);
    assert(error);
    if (loop == nullptr) return 0;
    if (PyErr_GivenExceptionMatches(error.get(), PyExc_OSError)) {
        if (loop_debug(loop)) transport_log("debug", "%r", error.get());
    } else if (report_failure(loop, message, error.get(), object_of(t), t.protocol) < 0) {
        ref raised = bridge::take_exception();
        if (transport_force_close(t, error.get()) < 0) PyErr_WriteUnraisable(object_of(t));
        bridge::restore_exception(std::move(raised));
        return -1;
    }
    return transport_force_close(t, error.get());
}

void transport_failed(transport_state& t, const char* message) noexcept {
    loop_object* loop = loop_of(t);
    if (loop != nullptr && loop_take_fatal(loop)) return;
    if (loop == nullptr) {
        PyErr_WriteUnraisable(object_of(t));
        return;
    }
    if (transport_fatal_error(t, message) == 0) return;
    if (!loop_take_fatal(loop)) PyErr_WriteUnraisable(object_of(t));
}

void transport_finalize(PyObject* self) noexcept {
    transport_state& t = state_of(self);
    if (!t.fd_open) return;
    ref pending = bridge::take_exception();
    warn_unclosed(self);
    // Operations may be in flight, and must not begin anew when they end here.
    t.closing = true;
    ++t.connection_lost_count;
    if (close_descriptor(t) < 0) PyErr_WriteUnraisable(self);
    if (t.server != nullptr) {
        ref server = ref::steal(std::exchange(t.server, nullptr));
        if (detach_from_server(self, server.get()) < 0) PyErr_WriteUnraisable(self);
    }
    if (pending) bridge::restore_exception(std::move(pending));
}

}  // namespace ringloop::python
