// What cancelled sock_* calls received all the same, for the next call on that socket. Rare, so it
// lives beside the sockets: in a WeakKeyDictionary, socket -> {kind: list of values, oldest first}.
#include "sockets.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

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
    const ref module = ref::steal(PyImport_ImportModule("weakref"));
    kept_by_socket =
        module ? PyObject_CallMethod(module.get(), "WeakKeyDictionary", nullptr) : nullptr;
    return kept_by_socket != nullptr ? 0 : -1;
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

void keep_bytes(PyObject* socket, const char* data, std::size_t size) noexcept {
    if (size == 0) return;
    const ref bytes = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    if (bytes)
        keep(socket, "bytes", bytes.get());
    else
        PyErr_WriteUnraisable(socket);
}

}  // namespace ringloop::python
