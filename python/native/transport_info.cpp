// What a transport tells about itself: extra info, repr, log lines. Cold; nothing is made before
// someone asks. Thread: the loop's, GIL held.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "datagram_address.hpp"
#include "transport.hpp"
#include "transport_names.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

PyObject* address_of(const sockaddr_storage& storage, socklen_t size) noexcept {
    wire_address address;
    std::memcpy(address.bytes, &storage, std::min<std::size_t>(size, sizeof address.bytes));
    address.size = size;
    return address_object(address);
}

int ask(transport_state& t, bool peer, sockaddr* address, socklen_t* size) noexcept {
    driver& io = io_of(loop_of(t));
    return peer ? io.peer_address(t.fd, address, size) : io.local_address(t.fd, address, size);
}

PyObject* read_address(transport_state& t, bool peer) noexcept {
    sockaddr_storage storage = {};
    const kept_address& kept = peer ? t.peer : t.local;
    socklen_t size = kept.size;
    if (size > 0) {
        std::memcpy(&storage, &kept.address, size);
    } else {
        if (!t.fd_open || !io_usable(t)) Py_RETURN_NONE;
        size = sizeof storage;
        if (ask(t, peer, reinterpret_cast<sockaddr*>(&storage), &size) < 0) Py_RETURN_NONE;
    }
    return address_of(storage, size);
}

PyObject* wrapped_socket(transport_state& t) noexcept {
    PyObject* socket = transport_socket(t);
    if (socket == nullptr) return nullptr;
    ref module = ref::steal(PyImport_ImportModule("ringloop._extras"));
    if (!module) return nullptr;
    return PyObject_CallMethod(module.get(), "TransportSocket", "OO", socket, object_of(t));
}

// Nobody asked while it was open: a closed socket of the same family, as asyncio would still show.
PyObject* closed_socket(transport_state& t) noexcept {
    const kept_address& kept = t.local.size > 0 ? t.local : t.peer;
    const int family = kept.size > 0 ? kept.address.sin6_family : AF_UNIX;
    ref module = ref::steal(PyImport_ImportModule("ringloop._extras"));
    return module ? PyObject_CallMethod(module.get(), "closed_socket", "i", family) : nullptr;
}

// The extra dict, made if need be: borrowed, or null with an exception set.
PyObject* extra_dict(PyObject* self) noexcept {
    PyObject*& extra = slot(self, slots.extra);
    if (extra == nullptr) extra = PyDict_New();
    return extra;
}

// A standard entry that is not there yet: computed and kept. Borrowed; null with an exception set,
// or without one for other names.
PyObject* fill_in(PyObject* self, PyObject* name) noexcept {
    transport_state& t = state_of(self);
    ref value;
    if (PyUnicode_Compare(name, names().peername) == 0) {
        value = ref::steal(read_address(t, true));
    } else if (PyUnicode_Compare(name, names().sockname) == 0) {
        value = ref::steal(read_address(t, false));
    } else if (PyUnicode_Compare(name, names().socket) == 0) {
        value = ref::steal(t.fd_open ? wrapped_socket(t) : closed_socket(t));
    } else {
        return nullptr;
    }
    if (!value) return nullptr;
    PyObject* extra = extra_dict(self);
    if (extra == nullptr || PyDict_SetItem(extra, name, value.get()) < 0) return nullptr;
    return value.get();  // the dict holds it
}

int keep_address(transport_state& t, bool peer) noexcept {
    kept_address& kept = peer ? t.peer : t.local;
    socklen_t size = sizeof kept.address;
    if (ask(t, peer, reinterpret_cast<sockaddr*>(&kept.address), &size) < 0) return 0;
    if (size <= sizeof kept.address) {
        kept.size = size;
        return 0;
    }
    PyObject* name = peer ? names().peername : names().sockname;  // a Unix socket's path
    PyObject* extra = slot(object_of(t), slots.extra);
    const int given = extra != nullptr ? PyDict_Contains(extra, name) : 0;
    if (given != 0) return given < 0 ? -1 : 0;
    return fill_in(object_of(t), name) != nullptr || PyErr_Occurred() == nullptr ? 0 : -1;
}

}  // namespace

int transport_keep_addresses(transport_state& t) noexcept {
    return keep_address(t, true) < 0 || keep_address(t, false) < 0 ? -1 : 0;
}

PyObject* transport_socket(transport_state& t) noexcept {
    if (t.socket != nullptr) return t.socket;
    ref module = ref::steal(PyImport_ImportModule("socket"));
    ref type = module ? ref::steal(PyObject_GetAttr(module.get(), names().socket)) : ref();
    ref none = type ? ref::steal(PyTuple_New(0)) : ref();
    ref fileno = none ? ref::steal(Py_BuildValue("{si}", "fileno", t.fd)) : ref();
    if (!fileno) return nullptr;
    ref socket = ref::steal(PyObject_Call(type.get(), none.get(), fileno.get()));
    if (!socket) return nullptr;
    ref done = ref::steal(PyObject_CallMethod(socket.get(), "setblocking", "O", Py_False));
    if (!done) {
        ref error = bridge::take_exception();  // the descriptor stays ours
        ref detached = ref::steal(PyObject_CallMethod(socket.get(), "detach", nullptr));
        bridge::restore_exception(std::move(error));
        return nullptr;
    }
    t.socket = socket.release();
    return t.socket;
}

PyObject* transport_extra(PyObject* self) noexcept {
    for (PyObject* name : {names().socket, names().sockname, names().peername}) {
        PyObject* extra = extra_dict(self);
        if (extra == nullptr) return nullptr;
        const int there = PyDict_Contains(extra, name);
        if (there < 0) return nullptr;
        if (there == 0 && fill_in(self, name) == nullptr && PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    return Py_NewRef(slot(self, slots.extra));
}

namespace {

// What a program has put in the place of asyncio's method, for its tests, say: new or null.
ref patched_get_extra_info(PyObject* self) noexcept {
    auto* base = reinterpret_cast<PyObject*>(transport_type->tp_base);
    ref found = ref::steal(PyObject_GetAttr(base, names().get_extra_info));
    if (!found || found.get() == names().stock_get_extra_info) return ref();
    ref stock = ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PySuper_Type), "OO",
                                                 transport_type, self));
    return stock ? ref::steal(PyObject_GetAttr(stock.get(), names().get_extra_info)) : ref();
}

}  // namespace

PyObject* transport_get_extra_info(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* keywords) noexcept {
    if (ref patched = patched_get_extra_info(self)) {
        return PyObject_Vectorcall(patched.get(), arguments, static_cast<std::size_t>(count),
                                   keywords);
    }
    if (PyErr_Occurred() != nullptr) return nullptr;
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    PyObject* name = count > 0 ? arguments[0] : nullptr;
    PyObject* otherwise = count > 1 ? arguments[1] : Py_None;
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
        const bool is_name = PyUnicode_CompareWithASCIIString(keyword, "name") == 0;
        if (!is_name && PyUnicode_CompareWithASCIIString(keyword, "default") != 0) name = nullptr;
        (is_name ? name : otherwise) = arguments[count + i];
    }
    if (name == nullptr || count > 2) {
        PyErr_SetString(PyExc_TypeError, "get_extra_info() takes name and default");
        return nullptr;
    }
    PyObject* extra = slot(self, slots.extra);
    PyObject* found = nullptr;
    if (extra != nullptr) {
        found = PyDict_GetItemWithError(extra, name);
        if (found == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    }
    if (found == nullptr && PyUnicode_Check(name)) {
        found = fill_in(self, name);
        if (found == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    }
    return Py_NewRef(found != nullptr ? found : otherwise);
}

PyObject* transport_repr(PyObject* self) noexcept {
    transport_state& t = state_of(self);
    const char* life = !t.fd_open ? " closed" : t.closing ? " closing" : "";
    if (loop_of(t) == nullptr || loop_is_closed(loop_of(t))) {
        return PyUnicode_FromFormat("<%s%s fd=%d>", "SocketTransport", life, t.fd);
    }
    const bool reading = t.receive.in_flight() && !t.receive.cancel_requested;
    return PyUnicode_FromFormat("<%s%s fd=%d read=%s write=<%s, bufsize=%zu>>", "SocketTransport",
                                life, t.fd, reading ? "polling" : "idle",
                                t.out != nullptr ? "polling" : "idle", transport_queued_bytes(t));
}

void transport_log(const char* level, const char* format, PyObject* argument) noexcept {
    ref pending = bridge::take_exception();
    ref module = ref::steal(PyImport_ImportModule("asyncio.log"));
    ref logger = module ? ref::steal(PyObject_GetAttrString(module.get(), "logger")) : ref();
    ref done;
    if (logger && argument != nullptr) {
        done = ref::steal(PyObject_CallMethod(logger.get(), level, "sO", format, argument));
    } else if (logger) {
        done = ref::steal(PyObject_CallMethod(logger.get(), level, "s", format));
    }
    if (!done) PyErr_WriteUnraisable(argument);
    if (pending) bridge::restore_exception(std::move(pending));
}

}  // namespace ringloop::python
