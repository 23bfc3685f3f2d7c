// Listeners: accepting for asyncio's Server. Contract in server.hpp.
#include "server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <vector>

#include "ledger.hpp"
#include "loop.hpp"
#include "owners.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "transport.hpp"
#include "transport_names.hpp"

namespace ringloop::python {
namespace {

using bridge::method;
using bridge::ref;

struct listener_object {
    PyObject_HEAD operation accept;
    loop_object* loop;
    PyObject* context;  // of start_serving(); each connection gets a copy
    PyObject* factory;
    PyObject* socket;
    PyObject* tls;     // ssl.SSLContext, or None
    PyObject* server;  // or None
    PyObject* handshake_timeout;
    PyObject* shutdown_timeout;
    PyObject* retry;  // TimerHandle while descriptors are short, or null
    int fd;
    bool stopping;
};

PyTypeObject* listener_type = nullptr;
std::vector<listener_object*> live;  // borrowed; for stop_serving() to find its listener
long live_listeners = 0;

PyObject* object(listener_object* l) noexcept {
    return reinterpret_cast<PyObject*>(l);
}
listener_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<listener_object*>(self);
}
listener_object& owner_of(operation& op) noexcept {
    return *reinterpret_cast<listener_object*>(reinterpret_cast<char*>(&op) -
                                               offsetof(listener_object, accept));
}

void arm(listener_object& l) noexcept {
    if (l.stopping || loop_is_closed(l.loop) || l.accept.in_flight()) return;
    l.accept.prepare_accept(l.fd, true);
    Py_INCREF(object(&l));  // the operation's own
    io_of(l.loop).submit(l.accept);
}

// ---- a connection came

// A failed connection is reported and forgotten; the listener goes on.
void report_lost_connection(listener_object& l) noexcept {
    if (loop_take_fatal(l.loop)) return;
    loop_report(l.loop, "Error on transport creation for incoming connection", "server", l.server);
}

// TLS: the handshake and everything around it are the standard library's.
bool hand_to_tls(listener_object& l, int fd) noexcept {
    ref module = ref::steal(PyImport_ImportModule("ringloop.tls"));
    if (!module) return false;
    ref done = ref::steal(PyObject_CallMethod(
        module.get(), "accept_tls", "OOiOOOO", reinterpret_cast<PyObject*>(l.loop), l.factory, fd,
        l.tls, l.server, l.handshake_timeout, l.shutdown_timeout));
    return static_cast<bool>(done);
}

bool make_connection(listener_object& l, int fd, PyObject* context) noexcept {
    ref protocol = ref::steal(PyObject_CallNoArgs(l.factory));
    if (!protocol) return false;
    if (l.stopping || loop_is_closed(l.loop)) {  // by the factory
        io_of(l.loop).close(fd);
        return true;
    }
    ref transport = ref::steal(
        make_transport(l.loop, fd, nullptr, protocol.get(), nullptr, nullptr, l.server, context));
    return static_cast<bool>(transport);
}

void on_connection(listener_object& l, int fd) noexcept {
    ref context = ref::steal(PyContext_Copy(l.context));
    bool made = false;
    if (context && PyContext_Enter(context.get()) == 0) {
        made = l.tls != Py_None ? hand_to_tls(l, fd) : make_connection(l, fd, context.get());
        ref error = bridge::take_exception();
        if (PyContext_Exit(context.get()) < 0) PyErr_WriteUnraisable(context.get());
        if (error) bridge::restore_exception(std::move(error));
    }
    if (made) return;
    io_of(l.loop).close(fd);
    report_lost_connection(l);
}

// ---- accept failed

// No descriptor or memory left: said once, then the listener waits a second and tries again.
void back_off(listener_object& l) noexcept {
    loop_report(l.loop, "socket.accept() out of system resource", "socket", l.socket);
    ref constants = ref::steal(PyImport_ImportModule("asyncio.constants"));
    ref delay = constants
                    ? ref::steal(PyObject_GetAttrString(constants.get(), "ACCEPT_RETRY_DELAY"))
                    : ref();
    ref resume = delay ? ref::steal(PyObject_GetAttrString(object(&l), "_resume")) : ref();
    if (resume) {
        l.retry = PyObject_CallMethod(reinterpret_cast<PyObject*>(l.loop), "call_later", "OO",
                                      delay.get(), resume.get());
    }
    if (l.retry != nullptr) return;
    loop_report(l.loop, "the wait before the next accept() failed; trying at once", "server",
                l.server);
    arm(l);
}

void on_error(listener_object& l, int error) noexcept {
    bridge::raise_errno(error);
    switch (error) {
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            back_off(l);
            return;
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
        case EOPNOTSUPP:  // not a listening socket (any more): trying again would not end
            loop_report(l.loop, "accept() failed; the server does not accept any more", "socket",
                        l.socket);
            return;
        default:  // this one client is gone, or the network was down for a moment
            PyErr_Clear();
            arm(l);
    }
}

void on_accept(operation& op, const completion& result) noexcept {
    listener_object& l = owner_of(op);
    if (result.result >= 0) {
        if (l.stopping || loop_is_closed(l.loop)) {
            io_of(l.loop).close(result.result);
        } else {
            on_connection(l, result.result);
        }
    }
    if (result.more) return;
    if (!l.stopping && !loop_is_closed(l.loop)) {
        if (result.result < 0 && result.result != -ECANCELED) {
            on_error(l, -result.result);
        } else {
            arm(l);
        }
    }
    Py_DECREF(object(&l));  // the reference of the operation that ended
}

// ---- the type

PyObject* resume(PyObject* self, PyObject*) noexcept {
    Py_CLEAR(cast(self)->retry);
    arm(*cast(self));
    Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    listener_object* l = cast(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<PyObject*>(l->loop));
    for (PyObject* held : {l->context, l->factory, l->socket, l->tls, l->server,
                           l->handshake_timeout, l->shutdown_timeout, l->retry}) {
        Py_VISIT(held);
    }
    return 0;
}

int clear(PyObject* self) noexcept {
    listener_object* l = cast(self);
    if (l->accept.in_flight()) return 0;  // it needs them: the loop's clear ends it
    Py_CLEAR(l->context);
    Py_CLEAR(l->factory);
    Py_CLEAR(l->socket);
    Py_CLEAR(l->tls);
    Py_CLEAR(l->server);
    Py_CLEAR(l->handshake_timeout);
    Py_CLEAR(l->shutdown_timeout);
    Py_CLEAR(l->retry);
    ref loop = ref::steal(reinterpret_cast<PyObject*>(std::exchange(l->loop, nullptr)));
    return 0;
}

void dealloc(PyObject* self) noexcept {
    PyObject_GC_UnTrack(self);
    live.erase(std::remove(live.begin(), live.end(), cast(self)), live.end());
    clear(self);
    cast(self)->accept.~operation();
    --live_listeners;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {{"_resume", resume, METH_NOARGS, "Accepts again."},
                         {nullptr, nullptr, 0, nullptr}};

listener_object* make_listener(loop_object* loop, PyObject* const* arguments,
                               Py_ssize_t count) noexcept {
    auto* l = cast(listener_type->tp_alloc(listener_type, 0));
    if (l == nullptr) return nullptr;
    new (&l->accept) operation(on_accept, true);
    ++live_listeners;
    PyObject* all[7] = {nullptr, nullptr, Py_None, Py_None, Py_None, Py_None, Py_None};
    std::copy(arguments, arguments + count, all);
    l->loop = reinterpret_cast<loop_object*>(Py_NewRef(reinterpret_cast<PyObject*>(loop)));
    l->factory = Py_NewRef(all[0]);
    l->socket = Py_NewRef(all[1]);
    l->tls = Py_NewRef(all[2]);
    l->server = Py_NewRef(all[3]);
    l->handshake_timeout = Py_NewRef(all[5]);
    l->shutdown_timeout = Py_NewRef(all[6]);
    l->context = PyContext_CopyCurrent();
    l->fd = l->context != nullptr ? PyObject_AsFileDescriptor(l->socket) : -1;
    if (l->fd < 0) {
        Py_DECREF(object(l));
        return nullptr;
    }
    return l;
}

listener_object* find(loop_object* loop, PyObject* socket) noexcept {
    for (listener_object* l : live) {
        if (l->loop == loop && l->socket == socket && !l->stopping) return l;
    }
    return nullptr;
}

PyObject* holder_of(const listener_object& l) noexcept {
    return l.server == Py_None ? l.socket : l.server;
}

bool check_arguments(PyObject* const* arguments, Py_ssize_t count, Py_ssize_t least,
                     Py_ssize_t most, const char* signature) noexcept {
    if (count >= least && count <= most && is_loop(arguments[0])) return true;
    PyErr_SetString(PyExc_TypeError, signature);
    return false;
}

}  // namespace

PyObject* start_serving(PyObject*, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (!check_arguments(arguments, count, 3, 8,
                         "start_serving(loop, protocol_factory, sock, sslcontext, server, backlog, "
                         "ssl_handshake_timeout, ssl_shutdown_timeout)")) {
        return nullptr;
    }
    auto* loop = reinterpret_cast<loop_object*>(arguments[0]);
    if (loop_is_closed(loop)) return raise_closed(loop), nullptr;
    if (find(loop, arguments[2]) != nullptr) {
        raise_conflict(arguments[2], "server", holder_of(*find(loop, arguments[2])),
                       "start_serving()");
        return nullptr;
    }
    ref listener = ref::steal(object(make_listener(loop, arguments + 1, count - 1)));
    if (!listener) return nullptr;
    listener_object& l = *cast(listener.get());
    try {
        live.push_back(&l);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    const int on = 1;  // inherited by what it accepts; refused by sockets that are not TCP
    (void)io_of(loop).set_option(l.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    arm(l);
    Py_RETURN_NONE;
}

PyObject* stop_serving(PyObject*, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (!check_arguments(arguments, count, 2, 2, "stop_serving(loop, sock)")) return nullptr;
    auto* loop = reinterpret_cast<loop_object*>(arguments[0]);
    ref listener = ref::share(object(find(loop, arguments[1])));
    if (listener) {
        listener_object& l = *cast(listener.get());
        l.stopping = true;
        if (!loop_is_closed(loop) && l.accept.in_flight()) io_of(loop).retire(l.accept);
        if (l.retry != nullptr) {
            ref retry = ref::steal(std::exchange(l.retry, nullptr));
            ref done = ref::steal(PyObject_CallMethod(retry.get(), "cancel", nullptr));
            if (!done) return nullptr;
        }
    }
    return PyObject_CallMethod(arguments[1], "close", nullptr);
}

void list_listeners(owner_list& found) noexcept {
    for (const listener_object* l : live) {
        if (l->stopping || !found.wants(l->fd)) continue;
        if (l->loop == nullptr || loop_is_closed(l->loop)) continue;
        const char* const state = l->retry != nullptr ? "waiting for descriptors" : "accepting";
        found.add(l->fd, "server", holder_of(*l), reinterpret_cast<PyObject*>(l->loop), state);
    }
}

int visit_listeners(loop_object* loop, visitproc visit, void* arg) noexcept {
    for (listener_object* l : live)
        if (l->loop == loop && l->accept.in_flight()) Py_VISIT(object(l));
    return 0;
}

int add_server_types(PyObject* module) noexcept {
    PyType_Slot type_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
    PyType_Spec spec = {"ringloop._native._Listener", sizeof(listener_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        type_slots};
    listener_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (listener_type == nullptr) return -1;
    ledger_add("listeners", &live_listeners);
    return PyModule_AddObjectRef(module, "_Listener", reinterpret_cast<PyObject*>(listener_type));
}

}  // namespace ringloop::python
