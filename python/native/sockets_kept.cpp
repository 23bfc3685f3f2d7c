// What cancelled sock_* calls received all the same, for the next call on that socket. Rare, so it
// lives beside the sockets: in a WeakKeyDictionary, socket -> {kind: list of values, oldest first}.
// What was received is of one kind, "bytes": (bytes, address) each.
#include "sockets.hpp"

#include <sys/socket.h>

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr const char* received_kind = "bytes";

PyTypeObject* native_socket_class = nullptr;  // _socket.socket
PyObject* type_member = nullptr;              // its descriptor
PyObject* kept_by_socket = nullptr;
// 0: nobody needs to look. What a socket had that has gone stays counted.
long kept_count = 0;

ref list_of(PyObject* socket, const char* kind, bool make) noexcept {
    ref kinds = ref::steal(PyObject_GetItem(kept_by_socket, socket));
    if (!kinds) {
        PyErr_Clear();
        if (!make) return {};
        kinds = ref::steal(PyDict_New());
        if (!kinds || PyObject_SetItem(kept_by_socket, socket, kinds.get()) < 0) return {};
    }
    PyObject* list = PyDict_GetItemString(kinds.get(), kind);
    if (list != nullptr || !make) return ref::share(list);
    ref made = ref::steal(PyList_New(0));
    if (!made || PyDict_SetItemString(kinds.get(), kind, made.get()) < 0) return {};
    return made;
}

}  // namespace

int prepare_kept() noexcept {
    const ref sockets = ref::steal(PyImport_ImportModule("_socket"));
    PyObject* const base = sockets ? PyObject_GetAttrString(sockets.get(), "socket") : nullptr;
    if (base == nullptr || !PyType_Check(base)) return -1;
    native_socket_class = reinterpret_cast<PyTypeObject*>(base);
    type_member = PyObject_GetAttrString(base, "type");
    if (type_member == nullptr) return -1;
    if (Py_TYPE(type_member)->tp_descr_get == nullptr) {
        PyErr_SetString(PyExc_ImportError, "_socket.socket.type is no attribute any more");
        return -1;
    }
    const ref module = ref::steal(PyImport_ImportModule("weakref"));
    kept_by_socket =
        module ? PyObject_CallMethod(module.get(), "WeakKeyDictionary", nullptr) : nullptr;
    return kept_by_socket != nullptr ? 0 : -1;
}

bool nothing_kept() noexcept {
    return kept_count == 0;
}

PyObject* take_kept(PyObject* socket, const char* kind) noexcept {
    if (kept_count == 0) return nullptr;
    const ref list = list_of(socket, kind, false);
    if (!list || PyList_GET_SIZE(list.get()) == 0) return nullptr;
    ref value = ref::share(PyList_GET_ITEM(list.get(), 0));
    if (PyList_SetSlice(list.get(), 0, 1, nullptr) < 0) {
        PyErr_WriteUnraisable(socket);  // it stays for a later call: never twice
        return nullptr;
    }
    --kept_count;
    return value.release();
}

void keep(PyObject* socket, const char* kind, PyObject* value) noexcept {
    const ref saved = bridge::take_exception();
    const ref list = list_of(socket, kind, true);
    if (!list || PyList_Append(list.get(), value) < 0)
        PyErr_WriteUnraisable(socket);
    else
        ++kept_count;
    if (saved) bridge::restore_exception(ref::share(saved.get()));
}

void keep_bytes(PyObject* socket, PyObject* bytes, PyObject* address) noexcept {
    const ref saved = bridge::take_exception();
    const ref pair = ref::steal(PyTuple_Pack(2, bytes, address));
    const ref list = pair ? list_of(socket, received_kind, true) : ref();
    if (!list || PyList_Insert(list.get(), 0, pair.get()) < 0)
        PyErr_WriteUnraisable(socket);
    else
        ++kept_count;
    if (saved) bridge::restore_exception(ref::share(saved.get()));
}

void keep_bytes(PyObject* socket, const char* data, std::size_t size, PyObject* address) noexcept {
    const ref saved = bridge::take_exception();
    const ref bytes = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    if (bytes)
        keep_bytes(socket, bytes.get(), address);
    else
        PyErr_WriteUnraisable(socket);
    if (saved) bridge::restore_exception(ref::share(saved.get()));
}

bool take_kept_bytes(PyObject* socket, std::size_t size_max, kept_bytes& out) noexcept {
    const ref pair = ref::steal(take_kept(socket, received_kind));
    if (!pair) return false;
    PyObject* bytes = PyTuple_GET_ITEM(pair.get(), 0);
    out.address = ref::share(PyTuple_GET_ITEM(pair.get(), 1));
    const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(bytes));
    if (have <= size_max) {
        out.bytes = ref::share(bytes);
        return true;
    }
    const char* data = PyBytes_AS_STRING(bytes);
    out.bytes = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size_max)));
    if (!out.bytes) {
        PyErr_WriteUnraisable(socket);
        keep_bytes(socket, bytes, out.address.get());
        return false;
    }
    if (is_stream(socket)) keep_bytes(socket, data + size_max, have - size_max, out.address.get());
    return true;
}

PyObject* take_all_kept_bytes(PyObject* socket) noexcept {
    ref all;
    while (const ref pair = ref::steal(take_kept(socket, received_kind))) {
        if (!all) all = ref::steal(PyList_New(0));
        if (!all || PyList_Append(all.get(), PyTuple_GET_ITEM(pair.get(), 0)) < 0)
            PyErr_WriteUnraisable(socket);
    }
    return all.release();
}

// From the member behind the property of socket.socket, which makes an enum of it.
bool is_stream(PyObject* socket) noexcept {
    const bool real = PyObject_TypeCheck(socket, native_socket_class);
    auto* const its_class = reinterpret_cast<PyObject*>(native_socket_class);
    const ref type = ref::steal(
        real ? Py_TYPE(type_member)->tp_descr_get(type_member, socket, its_class)
             : PyObject_GetAttrString(socket, "type"));
    const long number = type ? PyLong_AsLong(type.get()) : -1;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();  // no socket.socket
    return number == -1 || number == SOCK_STREAM;
}

}  // namespace ringloop::python
