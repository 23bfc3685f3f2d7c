// SocketMethods: the native half of EventLoop's sock_*; checks the arguments, makes the awaitable.
// The works themselves are in sockets_receive.cpp and sockets_send.cpp. Contract in sockets.hpp.
#include "sockets.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "arguments.hpp"
#include "loop.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "sockets_works.hpp"
#include "watch.hpp"

namespace ringloop::python {

using bridge::ref;

void socket_work::start(bridge::loop_host& host, bridge::awaitable& owner) noexcept {
    bind(host, owner);
    if (find_fd() < 0) return fail(-EBADF);
    if (enter(fd, order_, whose())) begin();
}

void socket_work::go() noexcept {
    find_fd() < 0 ? fail(-EBADF) : begin();
}

void socket_work::request_cancel() noexcept {
    if (!waits()) return operation_source::request_cancel();
    cancelling = true;
    leave();
    finish();
}

void socket_work::collect() noexcept {
    waits() ? request_cancel() : operation_source::collect();
}

void socket_work::finish() noexcept {
    const put_off until_told;  // the next begins, and may end, when this call's task was woken
    owner().finish();
}

int socket_work::find_fd() noexcept {
    static PyObject* const fileno = PyUnicode_InternFromString("fileno");
    const ref number = ref::steal(PyObject_CallMethodNoArgs(socket(), fileno));
    const long descriptor = number ? PyLong_AsLong(number.get()) : -1;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return fd = static_cast<int>(std::max(descriptor, -1L));
}

socket_work* socket_work::first_ = nullptr;

void socket_work::fly(bool uses_fd_again) noexcept {
    if (in_flight_) return submit();
    next_ = first_;
    if (first_ != nullptr) first_->previous_ = this;
    first_ = this;
    in_flight_ = true;
    if (uses_fd_again || host().native().io().what().chosen == backend::epoll) hold_open();
    submit();
}

void socket_work::landed() noexcept {
    if (!std::exchange(in_flight_, false)) return;
    (previous_ != nullptr ? previous_->next_ : first_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    previous_ = nullptr;
    next_ = nullptr;
    let_close();
}

void socket_work::forget_all_after_fork() noexcept {
    forget_all(nullptr);
    while (first_ != nullptr) first_->landed();
}

void socket_work::list_owners(owner_list& found) noexcept {
    for (socket_work* work = first_; work != nullptr; work = work->next_)
        if (found.wants(work->fd))
            found.add(work->fd, "socket call", work->socket(), work->host().loop(), work->name());
}

void socket_work::hold_open() noexcept {
    // What socket.makefile() counts by: close() waits for all of them.
    const ref count = ref::steal(PyObject_GetAttrString(socket(), "_io_refs"));
    const long users = count ? PyLong_AsLong(count.get()) : -1;
    const ref more = users >= 0 ? ref::steal(PyLong_FromLong(users + 1)) : ref();
    held_open_ = more && PyObject_SetAttrString(socket(), "_io_refs", more.get()) == 0;
    if (!held_open_) PyErr_Clear();  // an object that is no socket.socket has no such count
}

void socket_work::let_close() noexcept {
    if (!std::exchange(held_open_, false)) return;
    if (!ref::steal(PyObject_CallMethod(socket(), "_decref_socketios", nullptr)))
        PyErr_WriteUnraisable(socket());
}

void socket_work::fail(long result) noexcept {
    error = static_cast<int>(result < 0 ? -result : result);
    finish();
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
    if (loop_is_closed(loop)) return raise_closed(loop), nullptr;
    if (reinterpret_cast<PyObject*>(Py_TYPE(socket)) != socket_class) {
        const ref fine = ref::steal(PyObject_CallOneArg(check_ssl_socket, socket));
        if (!fine) return nullptr;
    }
    if (check_no_transport(loop, socket, "a sock_ call") < 0) return nullptr;
    if (!loop_debug(loop)) return loop;
    const ref timeout = ref::steal(PyObject_CallMethod(socket, "gettimeout", nullptr));
    if (!timeout) return nullptr;
    const double seconds = timeout.get() == Py_None ? -1.0 : PyFloat_AsDouble(timeout.get());
    if (seconds == 0.0) return loop;
    PyErr_SetString(PyExc_ValueError, "the socket must be non-blocking");
    return nullptr;
}

bool take_size(PyObject* value, Py_ssize_t& size) noexcept {
    size = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) return false;
    if (size >= 0) return true;
    PyErr_SetString(PyExc_ValueError, "negative buffersize in recv");
    return false;
}

constexpr const char* recv_names[] = {"sock", "n"};
constexpr const char* recv_into_names[] = {"sock", "buf"};
constexpr const char* recvfrom_names[] = {"sock", "bufsize"};
constexpr const char* recvfrom_into_names[] = {"sock", "buf", "nbytes"};
constexpr const char* sendto_names[] = {"sock", "data", "address"};
constexpr const char* sendall_names[] = {"sock", "data"};
constexpr const char* accept_names[] = {"sock"};

PyObject* sock_recv(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[2];
    Py_ssize_t size = 0;
    if (!bind({"sock_recv", recv_names, 2, 2}, args, count, names, given) ||
        checked(self, given[0]) == nullptr || !take_size(given[1], size))
        return nullptr;
    return await_receive(given[0], static_cast<std::size_t>(size));
}

PyObject* sock_recv_into(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[2];
    if (!bind({"sock_recv_into", recv_into_names, 2, 2}, args, count, names, given) ||
        checked(self, given[0]) == nullptr)
        return nullptr;
    return await_receive_into(given[0], given[1]);
}

PyObject* sock_sendall(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[2];
    if (!bind({"sock_sendall", sendall_names, 2, 2}, args, count, names, given)) return nullptr;
    return checked(self, given[0]) == nullptr ? nullptr : await_send_all(given[0], given[1]);
}

PyObject* sock_recvfrom(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[2];
    Py_ssize_t size = 0;
    if (!bind({"sock_recvfrom", recvfrom_names, 2, 2}, args, count, names, given) ||
        checked(self, given[0]) == nullptr || !take_size(given[1], size))
        return nullptr;
    return await_call(given[0], ready_for::reading, "recvfrom", given + 1, 1);
}

PyObject* sock_recvfrom_into(PyObject* self, PyObject* const* args, Py_ssize_t count,
                             PyObject* names) {
    PyObject* given[3];
    if (!bind({"sock_recvfrom_into", recvfrom_into_names, 2, 3}, args, count, names, given) ||
        checked(self, given[0]) == nullptr)
        return nullptr;
    // 0 means the whole buffer to the loop's users, and to the socket's method, too.
    const Py_ssize_t passed = given[2] != nullptr ? 2 : 1;
    return await_call(given[0], ready_for::reading, "recvfrom_into", given + 1, passed);
}

PyObject* sock_sendto(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* given[3];
    if (!bind({"sock_sendto", sendto_names, 3, 3}, args, count, names, given) ||
        checked(self, given[0]) == nullptr)
        return nullptr;
    return await_call(given[0], ready_for::writing, "sendto", given + 1, 2);
}

PyObject* sock_accept(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    PyObject* socket = nullptr;
    if (!bind({"sock_accept", accept_names, 1, 1}, args, count, names, &socket) ||
        checked(self, socket) == nullptr)
        return nullptr;
    return await_call(socket, ready_for::reading, "accept", nullptr, 0);
}

// Waits until a connection under way has ended, well or not: the caller reads SO_ERROR.
PyObject* sock_writable(PyObject* self, PyObject* socket) {
    if (checked(self, socket) == nullptr) return nullptr;
    return await_call(socket, ready_for::writing, nullptr, nullptr, 0);
}

// For sock_sendfile: an object that keeps its place before later writers while it lives.
PyObject* sock_send_turn(PyObject* self, PyObject* socket) {
    return checked(self, socket) == nullptr ? nullptr : await_send_turn(socket);
}

constexpr int with_names = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {
    {"sock_recv", bridge::method(sock_recv), with_names,
     "sock_recv($self, sock, n)\n--\n\nUp to n bytes; b'' at the end of the stream."},
    {"sock_recv_into", bridge::method(sock_recv_into), with_names,
     "sock_recv_into($self, sock, buf)\n--\n\nReceives into buf; the number of bytes."},
    {"sock_recvfrom", bridge::method(sock_recvfrom), with_names,
     "sock_recvfrom($self, sock, bufsize)\n--\n\nOne datagram: (bytes, address)."},
    {"sock_recvfrom_into", bridge::method(sock_recvfrom_into), with_names,
     "sock_recvfrom_into($self, sock, buf, nbytes=0)\n--\n\n"
     "One datagram into buf: (number of bytes, address)."},
    {"sock_sendto", bridge::method(sock_sendto), with_names,
     "sock_sendto($self, sock, data, address)\n--\n\nSends a datagram; the number of bytes."},
    {"sock_sendall", bridge::method(sock_sendall), with_names,
     "sock_sendall($self, sock, data)\n--\n\nSends all of data."},
    {"sock_accept", bridge::method(sock_accept), with_names,
     "sock_accept($self, sock)\n--\n\n(connection, address) of the next client."},
    {"_sock_writable", sock_writable, METH_O, "Waits until the socket is writable."},
    {"_sock_send_turn", sock_send_turn, METH_O, "Waits until earlier writers are done."},
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
    if (prepare_kept() < 0) return -1;
    return PyModule_AddObjectRef(module, "SocketMethods", type.get());
}

}  // namespace ringloop::python
