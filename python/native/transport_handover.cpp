// A descriptor that leaves its transport open, and one that comes to a transport: what
// ringloop.detach() and attach() are made of. Contract in transport.hpp.
//
// At any time it has one owner: the transport until nothing is in flight on it, then the socket.
// Thread: the loop's, GIL held.
#include "ringloop/bridge/python/errors.hpp"
#include "sockets.hpp"
#include "transport.hpp"
#include "transport_names.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

bool may_leave(transport_state& t) noexcept {
    const char* why = nullptr;
    if (!t.fd_open || !io_usable(t) || t.closing || t.connection_lost_count > 0)
        why = "it is closed, or closing";
    else if (t.file_waiter != nullptr)
        why = "a sendfile() is in progress";
    else if (t.out != nullptr)
        why = "data waits to be sent";
    if (why == nullptr) return true;
    PyErr_Format(PyExc_RuntimeError, "%R cannot be detached: %s", object_of(t), why);
    return false;
}

// Reading as before; the exception that is set stays.
void go_on(transport_state& t, bool was_paused) noexcept {
    if (was_paused) return;
    const ref error = bridge::take_exception();
    if (transport_resume_reading(t) < 0) PyErr_WriteUnraisable(object_of(t));
    if (error) bridge::restore_exception(ref::share(error.get()));
}

// Until nothing of the kernel's has the descriptor. What arrives meanwhile is held.
bool stop_reading(transport_state& t) noexcept {
    if (t.receive.in_flight()) io_of(loop_of(t)).retire(t.receive);
    if (t.connection_lost_count > 0) return may_leave(t);
    if (t.held_end >= 0) return true;  // an end of stream shows again
    bridge::raise_errno(t.held_end);   // the transport tells its protocol, and ends
    return false;
}

void leave(transport_state& t) noexcept {
    loop_object* loop = loop_of(t);
    if (t.turn_end.queued) {
        loop_cancel_turn_end(loop, t.turn_end);
        Py_DECREF(object_of(t));  // our caller holds another
    }
    io_of(loop).give_up(t.fd);
    loop_release_fd(loop, t.fd);
    t.fd_open = false;
    t.closing = true;
    Py_CLEAR(t.socket);
}

}  // namespace

PyObject* transport_detach(PyObject* self, PyObject*) noexcept {
    transport_state& t = state_of(self);
    if (!may_leave(t)) return nullptr;
    if (!t.started || t.in_pieces) Py_RETURN_NONE;
    const ref socket = ref::share(transport_socket(t));
    if (!socket) return nullptr;
    const bool was_paused = std::exchange(t.paused, true);
    if (!stop_reading(t)) {
        go_on(t, was_paused);
        return nullptr;
    }
    ref held = t.held != nullptr ? ref::share(t.held) : ref::steal(PyList_New(0));
    ref both = held ? ref::steal(PyTuple_Pack(2, socket.get(), held.get())) : ref();
    if (!both || transport_schedule_lost(t, Py_None) < 0) {
        go_on(t, was_paused);
        return nullptr;
    }
    Py_CLEAR(t.held);
    leave(t);
    return both.release();
}

PyObject* attach_transport(PyObject*, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count != 3 || !is_loop(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "attach_transport(loop, sock, protocol)");
        return nullptr;
    }
    auto* loop = reinterpret_cast<loop_object*>(arguments[0]);
    if (loop_is_closed(loop)) return raise_closed(loop), nullptr;
    const int fd = PyObject_AsFileDescriptor(arguments[1]);
    if (fd < 0) return nullptr;
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    (void)io_of(loop).get_option(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    if (type != SOCK_STREAM) {
        PyErr_Format(PyExc_ValueError, "attach() takes a stream socket, not %R", arguments[1]);
        return nullptr;
    }
    return prepare_transport(loop, fd, arguments[1], arguments[2], nullptr, nullptr, nullptr);
}

PyObject* transport_begin(PyObject* self, PyObject* received) noexcept {
    transport_state& t = state_of(self);
    if (t.started || t.protocol == nullptr || t.socket == nullptr || !PyBytes_Check(received)) {
        PyErr_SetString(PyExc_TypeError, "_begin(received) follows attach_transport()");
        return nullptr;
    }
    const ref protocol = ref::share(t.protocol);
    const context_scope scope(t);
    const ref made =
        ref::steal(PyObject_CallMethodOneArg(protocol.get(), names().connection_made, self));
    if (made) {
        if (PyBytes_GET_SIZE(received) > 0) keep_bytes(t.socket, received);
        if (PyObject* done = transport_start_reading(self, nullptr, 0)) return done;
    }
    const ref error = bridge::take_exception();
    if (transport_force_close(t, error.get()) < 0) PyErr_WriteUnraisable(self);
    bridge::restore_exception(ref::share(error.get()));
    return nullptr;
}

}  // namespace ringloop::python
