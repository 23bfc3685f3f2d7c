// Life of a DatagramTransport: making, close, abort, errors, connection_lost. Contract in
// datagram.hpp. Thread: the loop's, GIL held.
#include "datagram.hpp"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>

#include "transport_base.hpp"
#include "transport_names.hpp"

namespace ringloop::python {

using bridge::ref;

PyTypeObject* datagram_type = nullptr;
Py_ssize_t datagram_offset = 0;
long live_datagram_transports = 0;

namespace {

// ---- making

PyObject* allocate(loop_object* loop, PyObject* extra) noexcept {
    PyObject* self = datagram_type->tp_alloc(datagram_type, 0);
    if (self == nullptr) return nullptr;
    auto* t = new (&datagram_of(self)) datagram_state;
    t->readable.on_complete = datagram_on_readable;
    t->readable.host = true;
    t->writable.on_complete = datagram_on_writable;
    t->writable.host = true;
    t->turn_end.run = datagram_turn_end;
    fill_base_slots(self, loop, extra);
    ++live_datagram_transports;
    return self;
}

// Gives up a transport that could not be finished; the descriptor stays the caller's.
void discard(loop_object* loop, PyObject* self) noexcept {
    ref error = bridge::take_exception();
    datagram_state& t = datagram_of(self);
    if (t.fd_open) loop_release_fd(loop, t.fd);
    t.fd_open = false;
    t.closing = true;
    Py_DECREF(self);
    bridge::restore_exception(std::move(error));
}

void ask_socket(datagram_state& t, driver& io) noexcept {
    socklen_t size = sizeof t.family;
    (void)io.get_option(t.fd, SOL_SOCKET, SO_DOMAIN, &t.family, &size);  // 0: no known family
}

int ask_extra(datagram_state& t, PyObject* extra) noexcept {
    PyObject* peer = PyDict_GetItemWithError(extra, names().peername);
    t.connected = peer != nullptr && peer != Py_None;
    return PyErr_Occurred() != nullptr ? -1 : 0;
}

// ---- the end

void retire_operations(datagram_state& t, loop_object* loop) noexcept {
    if (t.turn_end.queued) {
        loop_cancel_turn_end(loop, t.turn_end);
        Py_DECREF(object_of(t));  // our caller holds another
    }
    if (t.readable.in_flight()) io_of(loop).retire(t.readable);
    if (t.writable.in_flight()) io_of(loop).retire(t.writable);
}

// After connection_lost(): nothing of the kernel's may still hold the file, then it is closed.
int close_descriptor(datagram_state& t) noexcept {
    if (!t.fd_open) return 0;
    t.fd_open = false;
    loop_object* loop = loop_of(t);
    assert(loop != nullptr);
    if (!loop_is_closed(loop)) retire_operations(t, loop);
    t.out.clear();
    loop_release_fd(loop, t.fd);
    PyObject* how = t.fd_gone ? datagram_words().detach : names().close;
    ref done = ref::steal(PyObject_CallMethodNoArgs(t.socket, how));
    return done ? 0 : -1;
}

int schedule_lost(datagram_state& t, PyObject* exception) noexcept {
    ++t.connection_lost_count;
    ref lost = ref::steal(PyObject_GetAttr(object_of(t), names()._call_connection_lost));
    if (!lost) return -1;
    return loop_call_soon(loop_of(t), lost.get(), exception, t.context);
}

void stop_reading(datagram_state& t) noexcept {
    Py_CLEAR(t.held);
    if (t.readable.in_flight() && io_usable(t)) io_of(loop_of(t)).cancel(t.readable);
}

int report(datagram_state& t, const char* message, PyObject* exception) noexcept {
    return report_failure(loop_of(t), message, exception, object_of(t), t.protocol);
}

}  // namespace

PyObject* make_datagram_transport(PyObject*, PyObject* const* arguments,
                                  Py_ssize_t count) noexcept {
    if (count != 6 || !is_loop(arguments[0]) || !PyDict_Check(arguments[5])) {
        PyErr_SetString(PyExc_TypeError,
                        "datagram_transport(loop, sock, protocol, address, waiter, extra)");
        return nullptr;
    }
    auto* loop = reinterpret_cast<loop_object*>(arguments[0]);
    if (loop_is_closed(loop)) return raise_closed(loop), nullptr;
    const int fd = PyObject_AsFileDescriptor(arguments[1]);
    if (fd < 0) return nullptr;
    if (check_other_loops(loop, fd, "a new transport") < 0) return nullptr;
    const int any = PyObject_IsTrue(arguments[3]);
    if (any < 0) return nullptr;
    PyObject* self = allocate(loop, arguments[5]);
    if (self == nullptr) return nullptr;
    datagram_state& t = datagram_of(self);
    t.fd = fd;
    t.context = PyContext_CopyCurrent();
    if (t.context == nullptr || loop_claim_fd(loop, fd, self) < 0) {
        discard(loop, self);
        return nullptr;
    }
    t.fd_open = true;
    t.socket = Py_NewRef(arguments[1]);
    t.protocol = Py_NewRef(arguments[2]);
    if (any > 0) t.remote = Py_NewRef(arguments[3]);
    ask_socket(t, io_of(loop));
    if (ask_extra(t, arguments[5]) < 0 ||
        schedule_start(loop, self, t.protocol, t.context, arguments[4]) < 0) {
        discard(loop, self);
        return nullptr;
    }
    return self;
}

// _start_reading(waiter): runs behind connection_made().
PyObject* datagram_start_reading(PyObject* self, PyObject* const* arguments,
                                 Py_ssize_t count) noexcept {
    datagram_state& t = datagram_of(self);
    t.started = true;
    datagram_update_reading(t);
    return tell_waiter(arguments, count);
}

void datagram_turn_end(turn_end_hook& hook) noexcept {
    auto& t = *reinterpret_cast<datagram_state*>(reinterpret_cast<char*>(&hook) -
                                                 offsetof(datagram_state, turn_end));
    if (t.fd_open && !t.blocked) datagram_flush(t);
    Py_DECREF(object_of(t));
}

int datagram_end_if_drained(datagram_state& t) noexcept {
    if (!t.closing || !t.out.empty() || t.connection_lost_count > 0) return 0;
    return schedule_lost(t, Py_None);
}

int datagram_close(datagram_state& t) noexcept {
    if (t.closing) return 0;
    t.closing = true;
    stop_reading(t);
    if (!t.blocked) datagram_flush(t);
    return datagram_end_if_drained(t);
}

int datagram_force_close(datagram_state& t, PyObject* exception) noexcept {
    if (t.connection_lost_count > 0) return 0;
    t.closing = true;
    if (!t.blocked && !t.fd_gone) datagram_flush(t);  // what asyncio would have sent by now
    t.out.clear();
    stop_reading(t);
    if (t.writable.in_flight() && io_usable(t)) io_of(loop_of(t)).cancel(t.writable);
    return schedule_lost(t, exception);
}

PyObject* datagram_call_connection_lost(PyObject* self, PyObject* exception) noexcept {
    datagram_state& t = datagram_of(self);
    ref first;
    if (t.protocol != nullptr) {
        ref protocol = ref::share(t.protocol);
        ref done = ref::steal(
            PyObject_CallMethodOneArg(protocol.get(), names().connection_lost, exception));
        if (!done) first = bridge::take_exception();
    }
    if (close_descriptor(t) < 0) {
        if (first) {  // an error of the clean-up never hides the protocol's own
            PyErr_WriteUnraisable(self);
        } else {
            first = bridge::take_exception();
        }
    }
    Py_CLEAR(t.protocol);
    t.known.reset();
    ref loop = ref::steal(std::exchange(slot(self, slots.loop), Py_NewRef(Py_None)));
    if (first) {
        bridge::restore_exception(std::move(first));
        return nullptr;
    }
    Py_RETURN_NONE;
}

ref datagram_error(int error) noexcept {
    return ref::steal(PyObject_CallFunction(PyExc_OSError, "is", error, std::strerror(error)));
}

int datagram_tell(datagram_state& t, int error) noexcept {
    if (t.protocol == nullptr) return 0;
    ref exception = datagram_error(error);
    if (!exception) return -1;
    ref protocol = ref::share(t.protocol);
    ref done = ref::steal(PyObject_CallMethodOneArg(protocol.get(), datagram_words().error_received,
                                                    exception.get()));
    return done ? 0 : -1;
}

// _tell_error(exception): for handles; the connection may have been lost since.
PyObject* datagram_tell_error(PyObject* self, PyObject* exception) noexcept {
    datagram_state& t = datagram_of(self);
    if (t.protocol == nullptr) Py_RETURN_NONE;
    ref protocol = ref::share(t.protocol);
    return PyObject_CallMethodOneArg(protocol.get(), datagram_words().error_received, exception);
}

int datagram_fatal_error(datagram_state& t, const char* message) noexcept {
    ref error = bridge::take_exception();
    loop_object* loop = loop_of(t);
    assert(error);
    if (loop == nullptr) return 0;
    if (PyErr_GivenExceptionMatches(error.get(), PyExc_OSError)) {
        if (loop_debug(loop)) transport_log("debug", "%r", error.get());
    } else if (report(t, message, error.get()) < 0) {
        ref raised = bridge::take_exception();
        if (datagram_force_close(t, error.get()) < 0) PyErr_WriteUnraisable(object_of(t));
        bridge::restore_exception(std::move(raised));
        return -1;
    }
    return datagram_force_close(t, error.get());
}

bool datagram_callback_failed(datagram_state& t, const char* message) noexcept {
    loop_object* loop = loop_of(t);
    if (loop == nullptr) {
        PyErr_WriteUnraisable(object_of(t));
        return false;
    }
    if (loop_take_fatal(loop)) return true;
    ref error = bridge::take_exception();
    if (report(t, message, error.get()) == 0) return false;
    if (loop_take_fatal(loop)) return true;
    PyErr_WriteUnraisable(object_of(t));
    return false;
}

bool datagram_lost_descriptor(datagram_state& t, int error) noexcept {
    if (error != EBADF && error != ENOTSOCK) return false;
    int type = 0;
    socklen_t size = sizeof type;
    if (io_of(loop_of(t)).get_option(t.fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0) return false;
    t.fd_gone = true;
    ref exception = datagram_error(error);
    if (exception) bridge::restore_exception(std::move(exception));
    if (datagram_fatal_error(t, "Fatal error on datagram transport") < 0)
        (void)datagram_callback_failed(t, "Fatal error on datagram transport");
    return true;
}

void datagram_tell_failure(datagram_state& t, int error) noexcept {
    context_scope scope(t.context);
    if (datagram_tell(t, error) < 0)
        (void)datagram_callback_failed(t, "Exception in callback error_received()");
}

void datagram_finalize(PyObject* self) noexcept {
    datagram_state& t = datagram_of(self);
    if (!t.fd_open) return;
    ref pending = bridge::take_exception();
    warn_unclosed(self);
    // Operations may be in flight, and must not begin anew when they end here.
    t.closing = true;
    ++t.connection_lost_count;
    if (close_descriptor(t) < 0) PyErr_WriteUnraisable(self);
    if (pending) bridge::restore_exception(std::move(pending));
}

}  // namespace ringloop::python
