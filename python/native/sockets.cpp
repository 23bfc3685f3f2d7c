// SocketMethods: the native half of EventLoop's sock_*; checks the arguments, makes the awaitable.
// The works themselves are in sockets_receive.cpp and sockets_send.cpp. Contract in sockets.hpp.
#include "sockets.hpp"

#include <cerrno>

#include "loop.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "sockets_works.hpp"

namespace ringloop::python {

using bridge::ref;

void socket_work::start(bridge::loop_host& host, bridge::awaitable& owner) noexcept {
    bind(host, owner);
    const ref number = ref::steal(PyObject_CallMethod(socket(), "fileno", nullptr));
    const long descriptor = number ? PyLong_AsLong(number.get()) : -1;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (descriptor < 0) return fail(-EBADF);
    fd = static_cast<int>(descriptor);
    begin();
}

void socket_work::fail(long result) noexcept {
    error = static_cast<int>(result < 0 ? -result : result);
    owner().finish();
}

bool socket_work::raise_error() noexcept {
    if (error == 0) return false;
    bridge::raise_errno(error);
    return true;
}

namespace {

PyObject* socket_class = nullptr;
PyObject* check_ssl_socket = nullptr;

// The loop, once the socket has passed asyncio's checks; null with an exception set.
loop_object* checked(PyObject* self, PyObject* socket) noexcept {
    if (!is_loop(self)) {
        PyErr_SetString(PyExc_TypeError, "sock_* belong to ringloop's EventLoop");
        return nullptr;
    }
    auto* loop = reinterpret_cast<loop_object*>(self);
    if (loop_is_closed(loop)) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return nullptr;
    }
    if (reinterpret_cast<PyObject*>(Py_TYPE(socket)) != socket_class) {
        const ref fine = ref::steal(PyObject_CallOneArg(check_ssl_socket, socket));
        if (!fine) return nullptr;
    }
    if (!loop_debug(loop)) return loop;
    const ref timeout = ref::steal(PyObject_CallMethod(socket, "gettimeout", nullptr));
    if (!timeout) return nullptr;
    const double seconds = timeout.get() == Py_None ? -1.0 : PyFloat_AsDouble(timeout.get());
    if (seconds == 0.0) return loop;
    PyErr_SetString(PyExc_ValueError, "the socket must be non-blocking");
    return nullptr;
}

bool take_count(Py_ssize_t have, Py_ssize_t least, Py_ssize_t most, const char* name) noexcept {
    if (have >= least && have <= most) return true;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, not %zd", name, least, most,
                 have);
    return false;
}

bool take_size(PyObject* value, Py_ssize_t& size) noexcept {
    size = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) return false;
    if (size >= 0) return true;
    PyErr_SetString(PyExc_ValueError, "negative buffersize in recv");
    return false;
}

PyObject* sock_recv(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Py_ssize_t size = 0;
    if (!take_count(count, 2, 2, "sock_recv") || checked(self, args[0]) == nullptr ||
        !take_size(args[1], size))
        return nullptr;
    return await_receive(args[0], static_cast<std::size_t>(size));
}

PyObject* sock_recv_into(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!take_count(count, 2, 2, "sock_recv_into") || checked(self, args[0]) == nullptr)
        return nullptr;
    return await_receive_into(args[0], args[1]);
}

PyObject* sock_sendall(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!take_count(count, 2, 2, "sock_sendall")) return nullptr;
    loop_object* loop = checked(self, args[0]);
    return loop == nullptr ? nullptr : await_send_all(io_of(loop), args[0], args[1]);
}

PyObject* sock_recvfrom(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Py_ssize_t size = 0;
    if (!take_count(count, 2, 2, "sock_recvfrom") || checked(self, args[0]) == nullptr ||
        !take_size(args[1], size))
        return nullptr;
    return await_call(args[0], ready_for::reading, "recvfrom", args + 1, 1);
}

PyObject* sock_recvfrom_into(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!take_count(count, 2, 3, "sock_recvfrom_into") || checked(self, args[0]) == nullptr)
        return nullptr;
    // 0 means the whole buffer to the loop's users, and to the socket's method, too.
    return await_call(args[0], ready_for::reading, "recvfrom_into", args + 1, count - 1);
}

PyObject* sock_sendto(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!take_count(count, 3, 3, "sock_sendto") || checked(self, args[0]) == nullptr)
        return nullptr;
    return await_call(args[0], ready_for::writing, "sendto", args + 1, 2);
}

PyObject* sock_accept(PyObject* self, PyObject* socket) {
    if (checked(self, socket) == nullptr) return nullptr;
    return await_call(socket, ready_for::reading, "accept", nullptr, 0);
}

// Waits until a connection under way has ended, well or not: the caller reads SO_ERROR.
PyObject* sock_writable(PyObject* self, PyObject* socket) {
    if (checked(self, socket) == nullptr) return nullptr;
    return await_call(socket, ready_for::writing, nullptr, nullptr, 0);
}

PyMethodDef methods[] = {
    {"sock_recv", bridge::method(sock_recv), METH_FASTCALL, "sock_recv(sock, n): bytes."},
    {"sock_recv_into", bridge::method(sock_recv_into), METH_FASTCALL,
     "sock_recv_into(sock, buf): number of bytes."},
    {"sock_recvfrom", bridge::method(sock_recvfrom), METH_FASTCALL,
     "sock_recvfrom(sock, bufsize): (bytes, address)."},
    {"sock_recvfrom_into", bridge::method(sock_recvfrom_into), METH_FASTCALL,
     "sock_recvfrom_into(sock, buf, nbytes=0): (number of bytes, address)."},
    {"sock_sendto", bridge::method(sock_sendto), METH_FASTCALL,
     "sock_sendto(sock, data, address): number of bytes."},
    {"sock_sendall", bridge::method(sock_sendall), METH_FASTCALL, "sock_sendall(sock, data)."},
    {"sock_accept", sock_accept, METH_O, "sock_accept(sock): (connection, address)."},
    {"_sock_writable", sock_writable, METH_O, "Waits until the socket is writable."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
PyType_Spec spec = {"ringloop._native.SocketMethods", 0, 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

int add_socket_types(PyObject* module) noexcept {
    const ref sockets = ref::steal(PyImport_ImportModule("socket"));
    const ref events = ref::steal(PyImport_ImportModule("asyncio.base_events"));
    if (!sockets || !events) return -1;
    socket_class = PyObject_GetAttrString(sockets.get(), "socket");
    check_ssl_socket = PyObject_GetAttrString(events.get(), "_check_ssl_socket");
    const ref type = ref::steal(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (socket_class == nullptr || check_ssl_socket == nullptr || !type) return -1;
    if (prepare_kept() < 0 || prepare_socket_works() < 0) return -1;
    return PyModule_AddObjectRef(module, "SocketMethods", type.get());
}

}  // namespace ringloop::python
