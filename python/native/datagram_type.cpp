// The type object DatagramTransport and the module's function. Contract in datagram.hpp.
#include <Python.h>

#include "datagram.hpp"
#include "ledger.hpp"
#include "transport_base.hpp"

namespace ringloop::python {
namespace {

using bridge::method;
using bridge::ref;

datagram_names words = {};

// ---- methods

PyObject* m_close(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.close()")) return nullptr;
    return none_or_error(datagram_close(datagram_of(self)));
}
PyObject* m_abort(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.abort()")) return nullptr;
    return none_or_error(datagram_force_close(datagram_of(self), Py_None));
}
PyObject* m_force_close(PyObject* self, PyObject* exception) noexcept {
    return none_or_error(datagram_force_close(datagram_of(self), exception));
}
PyObject* m_fatal_error(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    const char* message = take_fatal_error(arguments, count);
    if (message == nullptr) return nullptr;
    return none_or_error(datagram_fatal_error(datagram_of(self), message));
}
PyObject* m_is_closing(PyObject* self, PyObject*) noexcept {
    return PyBool_FromLong(datagram_of(self).closing);
}
PyObject* m_is_reading(PyObject* self, PyObject*) noexcept {
    const datagram_state& t = datagram_of(self);
    return PyBool_FromLong(!t.closing && !t.paused);
}
PyObject* m_pause_reading(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.pause_reading()")) return nullptr;
    datagram_state& t = datagram_of(self);
    if (!t.closing) t.paused = true;
    Py_RETURN_NONE;
}
PyObject* m_resume_reading(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.resume_reading()")) return nullptr;
    return none_or_error(datagram_resume_reading(datagram_of(self)));
}
PyObject* m_set_protocol(PyObject* self, PyObject* protocol) noexcept {
    ref previous = ref::steal(std::exchange(datagram_of(self).protocol, Py_NewRef(protocol)));
    Py_RETURN_NONE;
}
PyObject* m_get_protocol(PyObject* self, PyObject*) noexcept {
    return none_or(datagram_of(self).protocol);
}
PyObject* m_get_write_buffer_size(PyObject* self, PyObject*) noexcept {
    return PyLong_FromSize_t(datagram_of(self).out.bytes());
}

PyMethodDef methods[] = {
    {"sendto", method(datagram_sendto), METH_FASTCALL | METH_KEYWORDS,
     "sendto($self, /, data, addr=None)\n--\n\nSends one datagram; its errors go to "
     "protocol.error_received()."},
    {"close", m_close, METH_NOARGS, "Closes once the queue is empty."},
    {"abort", m_abort, METH_NOARGS, "Closes at once; queued datagrams may be lost."},
    {"is_closing", m_is_closing, METH_NOARGS, "Whether close() or abort() was called."},
    {"pause_reading", m_pause_reading, METH_NOARGS,
     "No datagram_received() until resume_reading()."},
    {"resume_reading", m_resume_reading, METH_NOARGS, "Undoes pause_reading()."},
    {"is_reading", m_is_reading, METH_NOARGS, "Whether datagrams are delivered."},
    {"set_protocol", m_set_protocol, METH_O, "Changes the protocol."},
    {"get_protocol", m_get_protocol, METH_NOARGS,
     "The protocol, None once the connection is lost."},
    {"get_write_buffer_size", m_get_write_buffer_size, METH_NOARGS,
     "Bytes that the kernel has not taken yet."},
    {"_force_close", m_force_close, METH_O, nullptr},
    {"_fatal_error", method(m_fatal_error), METH_FASTCALL, nullptr},
    {"_call_connection_lost", datagram_call_connection_lost, METH_O, nullptr},
    {"_start_reading", method(datagram_start_reading), METH_FASTCALL, nullptr},
    {"_deliver_held", datagram_deliver_held, METH_NOARGS, nullptr},
    {"_tell_error", datagram_tell_error, METH_O, nullptr},
    {"_send_again", datagram_send_again, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// ---- attributes that programs look at on the stock transport

// What the base's slot holds is used as a loop: it cannot be set.
PyObject* g_loop(PyObject* self, void*) noexcept {
    return none_or(slot(self, slots.loop));
}
PyObject* g_protocol(PyObject* self, void*) noexcept {
    return none_or(datagram_of(self).protocol);
}
PyObject* g_sock(PyObject* self, void*) noexcept {
    datagram_state& t = datagram_of(self);
    return none_or(t.fd_open ? t.socket : nullptr);
}
PyObject* g_sock_fd(PyObject* self, void*) noexcept {
    return PyLong_FromLong(datagram_of(self).fd);
}
PyObject* g_address(PyObject* self, void*) noexcept {
    return none_or(datagram_of(self).remote);
}
PyObject* g_conn_lost(PyObject* self, void*) noexcept {
    return PyLong_FromUnsignedLong(datagram_of(self).connection_lost_count);
}
PyObject* g_closing(PyObject* self, void*) noexcept {
    return PyBool_FromLong(datagram_of(self).closing);
}
PyObject* g_paused(PyObject* self, void*) noexcept {
    return PyBool_FromLong(datagram_of(self).paused);
}
PyObject* g_buffer(PyObject* self, void*) noexcept {
    const datagram_queue& out = datagram_of(self).out;
    ref list = ref::steal(PyList_New(0));
    for (std::size_t i = 0; list && i < out.size(); ++i) {
        ref address = out[i].address != nullptr ? ref::share(out[i].address)
                                                : ref::steal(address_object(out[i].to));
        ref pair = ref::steal(address ? PyTuple_Pack(2, out[i].data, address.get()) : nullptr);
        if (!pair || PyList_Append(list.get(), pair.get()) < 0) return nullptr;
    }
    return list.release();
}

PyGetSetDef attributes[] = {
    {"_loop", g_loop, nullptr, nullptr, nullptr},
    {"_protocol", g_protocol, nullptr, nullptr, nullptr},
    {"_sock", g_sock, nullptr, nullptr, nullptr},
    {"_sock_fd", g_sock_fd, nullptr, nullptr, nullptr},
    {"_address", g_address, nullptr, nullptr, nullptr},
    {"_buffer", g_buffer, nullptr, nullptr, nullptr},
    {"_conn_lost", g_conn_lost, nullptr, nullptr, nullptr},
    {"_closing", g_closing, nullptr, nullptr, nullptr},
    {"_paused", g_paused, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* repr(PyObject* self) noexcept {
    datagram_state& t = datagram_of(self);
    const char* life = !t.fd_open ? " closed" : t.closing ? " closing" : "";
    if (!io_usable(t)) return PyUnicode_FromFormat("<DatagramTransport%s fd=%d>", life, t.fd);
    const bool reading = t.readable.in_flight() && !t.readable.cancel_requested && !t.paused;
    return PyUnicode_FromFormat("<DatagramTransport%s fd=%d read=%s write=<%s, bufsize=%zu>>", life,
                                t.fd, reading ? "polling" : "idle",
                                t.out.empty() ? "idle" : "polling", t.out.bytes());
}

// ---- the collector

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    datagram_state& t = datagram_of(self);
    Py_VISIT(Py_TYPE(self));
    if (const int result = visit_base_slots(self, visit, arg); result != 0) return result;
    for (std::size_t i = 0; i < t.out.size(); ++i) {
        Py_VISIT(t.out[i].address);
    }
    Py_VISIT(t.protocol);
    Py_VISIT(t.context);
    Py_VISIT(t.socket);
    Py_VISIT(t.remote);
    Py_VISIT(t.held);
    Py_VISIT(t.dict);
    return 0;
}

int held_by_loop(const datagram_state& t) noexcept {
    return (t.readable.in_flight() ? 1 : 0) + (t.writable.in_flight() ? 1 : 0) +
           (t.turn_end.queued ? 1 : 0);
}

int clear(PyObject* self) noexcept {
    datagram_state& t = datagram_of(self);
    if (held_by_loop(t) > 0) return 0;  // they need it all: the loop's clear ends them
    clear_base_slots(self);
    t.out.clear();
    Py_CLEAR(t.protocol);
    Py_CLEAR(t.context);
    Py_CLEAR(t.socket);
    Py_CLEAR(t.remote);
    Py_CLEAR(t.held);
    Py_CLEAR(t.dict);
    return 0;
}

void dealloc(PyObject* self) noexcept {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;  // resurrected
    PyObject_GC_UnTrack(self);
    datagram_state& t = datagram_of(self);
    if (t.weak_references != nullptr) PyObject_ClearWeakRefs(self);
    clear(self);
    t.~datagram_state();
    --live_datagram_transports;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

}  // namespace

int datagram_visit_held(PyObject* self, visitproc visit, void* arg) noexcept {
    for (int held = held_by_loop(datagram_of(self)); held > 0; --held) Py_VISIT(self);
    return 0;
}

void list_datagram_transport(owner_list& found, PyObject* self) noexcept {
    const datagram_state& t = datagram_of(self);
    if (!found.wants(t.fd)) return;
    const char* const state = t.closing    ? "closing"
                              : !t.started ? "starting"
                              : t.paused   ? "paused"
                                           : "receiving";
    found.add(t.fd, "datagram transport", self, slot(self, slots.loop), state);
}

namespace {

// ---- making the type

ref make_type(PyObject* flow_control, PyObject* datagrams) noexcept {
    const PyType_Slot own[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                               {Py_tp_finalize, reinterpret_cast<void*>(datagram_finalize)},
                               {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear)},
                               {Py_tp_repr, reinterpret_cast<void*>(repr)},
                               {Py_tp_methods, methods},
                               {Py_tp_getset, attributes},
                               {0, nullptr}};
    ref bases = ref::steal(PyTuple_Pack(2, flow_control, datagrams));
    if (!bases) return ref();
    return make_transport_type<datagram_state>("ringloop._native.DatagramTransport", bases.get(),
                                               datagram_offset, own);
}

int intern_words() noexcept {
    const struct {
        PyObject** where;
        const char* text;
    } all[] = {
        {&words.datagram_received, "datagram_received"},
        {&words.error_received, "error_received"},
        {&words.sendto, "sendto"},
        {&words.send, "send"},
        {&words.recvfrom, "recvfrom"},
        {&words.detach, "detach"},
        {&words._tell_error, "_tell_error"},
        {&words._send_again, "_send_again"},
    };
    for (const auto& entry : all) {
        if (*entry.where == nullptr) *entry.where = PyUnicode_InternFromString(entry.text);
        if (*entry.where == nullptr) return -1;
    }
    return 0;
}

PyMethodDef functions[] = {{"datagram_transport", method(make_datagram_transport), METH_FASTCALL,
                            "A transport over a datagram socket."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

datagram_names& datagram_words() noexcept {
    return words;
}

int add_datagram_types(PyObject* module) noexcept {
    if (intern_words() < 0) return -1;
    ref transports = ref::steal(PyImport_ImportModule("asyncio.transports"));
    if (!transports) return -1;
    ref flow = ref::steal(PyObject_GetAttrString(transports.get(), "_FlowControlMixin"));
    ref datagrams = ref::steal(PyObject_GetAttrString(transports.get(), "DatagramTransport"));
    if (!flow || !datagrams) return -1;
    ref type = make_type(flow.get(), datagrams.get());
    ref size = ref::steal(PyLong_FromLong(256 * 1024));
    if (!type || !size || PyObject_SetAttrString(type.get(), "max_size", size.get()) < 0) return -1;
    if (PyModule_AddObjectRef(module, "DatagramTransport", type.get()) < 0) return -1;
    datagram_type = reinterpret_cast<PyTypeObject*>(type.release());
    ledger_add("datagram_transports", &live_datagram_transports);
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::python
