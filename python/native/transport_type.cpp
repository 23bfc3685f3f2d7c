// The type object SocketTransport and the module's transport functions. Contract in transport.hpp.
#include <Python.h>

#include <algorithm>
#include <vector>

#include "ledger.hpp"
#include "server.hpp"
#include "streams.hpp"
#include "tls.hpp"
#include "transport.hpp"
#include "transport_base.hpp"
#include "transport_names.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {
namespace {

using bridge::method;
using bridge::ref;

// ---- methods

PyObject* m_write(PyObject* self, PyObject* data) noexcept {
    if (!on_its_thread(self, "transport.write()")) return nullptr;
    return none_or_error(transport_write(state_of(self), data));
}
PyObject* m_writelines(PyObject* self, PyObject* lines) noexcept {
    if (!on_its_thread(self, "transport.writelines()")) return nullptr;
    return none_or_error(transport_writelines(state_of(self), lines));
}
PyObject* m_write_eof(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.write_eof()")) return nullptr;
    return none_or_error(transport_write_eof(state_of(self)));
}
PyObject* m_can_write_eof(PyObject*, PyObject*) noexcept {
    Py_RETURN_TRUE;
}
PyObject* m_close(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.close()")) return nullptr;
    return none_or_error(transport_close(state_of(self)));
}
PyObject* m_abort(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.abort()")) return nullptr;
    return none_or_error(transport_force_close(state_of(self), Py_None));
}
PyObject* m_force_close(PyObject* self, PyObject* exception) noexcept {
    return none_or_error(transport_force_close(state_of(self), exception));
}
PyObject* m_is_closing(PyObject* self, PyObject*) noexcept {
    return PyBool_FromLong(state_of(self).closing);
}
PyObject* m_pause_reading(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.pause_reading()")) return nullptr;
    return none_or_error(transport_pause_reading(state_of(self)));
}
PyObject* m_resume_reading(PyObject* self, PyObject*) noexcept {
    if (!on_its_thread(self, "transport.resume_reading()")) return nullptr;
    return none_or_error(transport_resume_reading(state_of(self)));
}
PyObject* m_is_reading(PyObject* self, PyObject*) noexcept {
    const transport_state& t = state_of(self);
    return PyBool_FromLong(!t.closing && !t.paused);
}
PyObject* m_set_protocol(PyObject* self, PyObject* protocol) noexcept {
    transport_set_protocol(state_of(self), protocol);
    Py_RETURN_NONE;
}
PyObject* m_get_protocol(PyObject* self, PyObject*) noexcept {
    return none_or(state_of(self).protocol);
}
PyObject* m_get_write_buffer_size(PyObject* self, PyObject*) noexcept {
    return PyLong_FromSize_t(transport_queued_bytes(state_of(self)));
}
PyObject* m_send_now(PyObject* self, PyObject*) noexcept {
    return none_or_error(transport_send_now(state_of(self)));
}
PyObject* m_fatal_error(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    const char* message = take_fatal_error(arguments, count);
    if (message == nullptr) return nullptr;
    return none_or_error(transport_fatal_error(state_of(self), message));
}

PyMethodDef methods[] = {
    {"write", m_write, METH_O, "Queues data; it leaves at the end of this turn."},
    {"writelines", m_writelines, METH_O, "Queues several pieces of data."},
    {"write_eof", m_write_eof, METH_NOARGS, "Closes the write side once the queue is empty."},
    {"can_write_eof", m_can_write_eof, METH_NOARGS, "True."},
    {"close", m_close, METH_NOARGS, "Closes once the queue is empty."},
    {"abort", m_abort, METH_NOARGS, "Closes at once; queued data may be lost."},
    {"is_closing", m_is_closing, METH_NOARGS, "Whether close() or abort() was called."},
    {"pause_reading", m_pause_reading, METH_NOARGS, "No data_received() until resume_reading()."},
    {"resume_reading", m_resume_reading, METH_NOARGS, "Undoes pause_reading()."},
    {"is_reading", m_is_reading, METH_NOARGS, "Whether data is delivered."},
    {"set_protocol", m_set_protocol, METH_O, "Changes the protocol."},
    {"get_protocol", m_get_protocol, METH_NOARGS,
     "The protocol, None once the connection is lost."},
    {"get_write_buffer_size", m_get_write_buffer_size, METH_NOARGS, "Bytes not yet sent."},
    {"get_extra_info", method(transport_get_extra_info), METH_FASTCALL | METH_KEYWORDS,
     "get_extra_info(name, default=None)"},
    {"_send_now", m_send_now, METH_NOARGS, nullptr},
    {"_force_close", m_force_close, METH_O, nullptr},
    {"_fatal_error", method(m_fatal_error), METH_FASTCALL, nullptr},
    {"_call_connection_lost", transport_call_connection_lost, METH_O, nullptr},
    {"_start_reading", method(transport_start_reading), METH_FASTCALL, nullptr},
    {"_deliver_held", transport_deliver_held, METH_NOARGS, nullptr},
    {"_begin", transport_begin, METH_O, nullptr},
    {"_detach", transport_detach, METH_NOARGS, nullptr},
    {"_make_empty_waiter", transport_hold_for_file, METH_NOARGS, nullptr},
    {"_renew_empty_waiter", transport_renew_file_waiter, METH_NOARGS, nullptr},
    {"_reset_empty_waiter", transport_end_file, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// ---- attributes that programs look at on the stock transport

// What the base's slot holds is used as a loop: it cannot be set.
PyObject* g_loop(PyObject* self, void*) noexcept {
    return none_or(slot(self, slots.loop));
}
PyObject* g_protocol(PyObject* self, void*) noexcept {
    return none_or(state_of(self).protocol);
}
PyObject* g_server(PyObject* self, void*) noexcept {
    return none_or(state_of(self).server);
}
PyObject* g_sock(PyObject* self, void*) noexcept {
    transport_state& t = state_of(self);
    if (!t.fd_open) Py_RETURN_NONE;
    return Py_XNewRef(transport_socket(t));
}
PyObject* g_sock_fd(PyObject* self, void*) noexcept {
    return PyLong_FromLong(state_of(self).fd);
}
PyObject* g_extra(PyObject* self, void*) noexcept {
    return transport_extra(self);
}
PyObject* g_buffer(PyObject* self, void*) noexcept {
    return transport_queued_list(state_of(self));
}
PyObject* g_conn_lost(PyObject* self, void*) noexcept {
    return PyLong_FromUnsignedLong(state_of(self).connection_lost_count);
}
PyObject* g_closing(PyObject* self, void*) noexcept {
    return PyBool_FromLong(state_of(self).closing);
}
PyObject* g_paused(PyObject* self, void*) noexcept {
    return PyBool_FromLong(state_of(self).paused);
}
PyObject* g_eof(PyObject* self, void*) noexcept {
    return PyBool_FromLong(state_of(self).write_ended);
}
PyObject* g_context(PyObject* self, void*) noexcept {
    return none_or(state_of(self).context);
}
PyObject* g_polling(PyObject* self, void*) noexcept {
    return PyBool_FromLong(state_of(self).polling);
}

PyGetSetDef attributes[] = {
    {"_loop", g_loop, nullptr, nullptr, nullptr},
    {"_protocol", g_protocol, nullptr, nullptr, nullptr},
    {"_server", g_server, nullptr, nullptr, nullptr},
    {"_sock", g_sock, nullptr, nullptr, nullptr},
    {"_sock_fd", g_sock_fd, nullptr, nullptr, nullptr},
    {"_extra", g_extra, nullptr, nullptr, nullptr},
    {"_buffer", g_buffer, nullptr, nullptr, nullptr},
    {"_conn_lost", g_conn_lost, nullptr, nullptr, nullptr},
    {"_closing", g_closing, nullptr, nullptr, nullptr},
    {"_paused", g_paused, nullptr, nullptr, nullptr},
    {"_eof", g_eof, nullptr, nullptr, nullptr},
    {"_context", g_context, nullptr, "every callback of this connection runs in it", nullptr},
    {"_polling", g_polling, nullptr, "whether large messages made reading poll", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// ---- the collector

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    transport_state& t = state_of(self);
    Py_VISIT(Py_TYPE(self));
    if (const int result = visit_base_slots(self, visit, arg); result != 0) return result;
    Py_VISIT(t.protocol);
    Py_VISIT(t.context);
    Py_VISIT(t.reader);
    Py_VISIT(t.socket);
    Py_VISIT(t.server);
    Py_VISIT(t.held);
    Py_VISIT(t.file_waiter);
    Py_VISIT(t.dict);
    return 0;
}

// References of operations in flight and of the queued hook. (Within a handler the operation has
// ended, and its reference not yet: not counted, so the collector takes it for somebody's.)
int held_by_loop(const transport_state& t) noexcept {
    return (t.receive.in_flight() ? 1 : 0) + (t.turn_end.queued ? 1 : 0) +
           (t.out != nullptr && t.out->send.in_flight() ? 1 : 0);
}

int clear(PyObject* self) noexcept {
    transport_state& t = state_of(self);
    if (held_by_loop(t) > 0) return 0;  // they need it all: the loop's clear ends them
    clear_base_slots(self);
    Py_CLEAR(t.protocol);
    Py_CLEAR(t.context);
    Py_CLEAR(t.reader);
    Py_CLEAR(t.socket);
    Py_CLEAR(t.server);
    Py_CLEAR(t.held);
    Py_CLEAR(t.file_waiter);
    Py_CLEAR(t.dict);
    return 0;
}

void dealloc(PyObject* self) noexcept {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;  // resurrected
    PyObject_GC_UnTrack(self);
    transport_state& t = state_of(self);
    if (t.weak_references != nullptr) PyObject_ClearWeakRefs(self);
    if (t.out != nullptr) give_outgoing(std::exchange(t.out, nullptr));
    clear(self);
    t.~transport_state();
    --live_transports;
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

}  // namespace

int transport_visit_held(PyObject* self, visitproc visit, void* arg) noexcept {
    for (int held = held_by_loop(state_of(self)); held > 0; --held) Py_VISIT(self);
    return 0;
}

void list_transport(owner_list& found, PyObject* self) noexcept {
    const transport_state& t = state_of(self);
    if (!found.wants(t.fd)) return;
    const char* const state = t.closing      ? "closing"
                              : !t.started   ? "starting"
                              : t.read_ended ? "at its end"
                              : t.paused     ? "paused"
                                             : "reading";
    found.add(t.fd, "transport", self, slot(self, slots.loop), state);
}

namespace {

// ---- making the type

Py_ssize_t slot_offset(PyObject* base, const char* name) noexcept {
    ref descriptor = ref::steal(PyObject_GetAttrString(base, name));
    if (!descriptor) return -1;
    if (!Py_IS_TYPE(descriptor.get(), &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_ImportError, "asyncio's _FlowControlMixin.%s is no slot any more", name);
        return -1;
    }
    return reinterpret_cast<PyMemberDescrObject*>(descriptor.get())->d_member->offset;
}

int find_slots(PyObject* base) noexcept {
    const struct {
        Py_ssize_t& where;
        const char* name;
    } all[] = {{slots.extra, "_extra"},
               {slots.loop, "_loop"},
               {slots.protocol_paused, "_protocol_paused"},
               {slots.high_water, "_high_water"},
               {slots.low_water, "_low_water"}};
    for (const auto& entry : all) {
        entry.where = slot_offset(base, entry.name);
        if (entry.where < 0) return -1;
    }
    return 0;
}

ref make_type(PyObject* bases) noexcept {
    const PyType_Slot own[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                               {Py_tp_finalize, reinterpret_cast<void*>(transport_finalize)},
                               {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear)},
                               {Py_tp_repr, reinterpret_cast<void*>(transport_repr)},
                               {Py_tp_methods, methods},
                               {Py_tp_getset, attributes},
                               {0, nullptr}};
    return make_transport_type<transport_state>("ringloop._native.SocketTransport", bases,
                                                state_offset, own);
}

// What asyncio asks of a transport before it upgrades or sends files over it.
int set_stock_flags(PyObject* type) noexcept {
    if (PyObject_SetAttrString(type, "_start_tls_compatible", Py_True) < 0) return -1;
    ref constants = ref::steal(PyImport_ImportModule("asyncio.constants"));
    ref modes =
        constants ? ref::steal(PyObject_GetAttrString(constants.get(), "_SendfileMode")) : ref();
    ref native = modes ? ref::steal(PyObject_GetAttrString(modes.get(), "TRY_NATIVE")) : ref();
    if (!native) return -1;
    return PyObject_SetAttrString(type, "_sendfile_compatible", native.get());
}

// transport_from_socket(loop, sock, protocol, waiter=None, extra=None, server=None)
PyObject* from_socket(PyObject*, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count < 3 || count > 6 || !is_loop(arguments[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "transport_from_socket(loop, sock, protocol, waiter, extra, server)");
        return nullptr;
    }
    const int fd = PyObject_AsFileDescriptor(arguments[1]);
    if (fd < 0) return nullptr;
    auto* loop = reinterpret_cast<loop_object*>(arguments[0]);
    if (loop_is_closed(loop)) return raise_closed(loop), nullptr;
    if (check_other_loops(loop, fd, "a new transport") < 0) return nullptr;
    PyObject* rest[3] = {Py_None, Py_None, Py_None};
    std::copy(arguments + 3, arguments + count, rest);
    return make_transport(loop, fd, arguments[1], arguments[2], rest[0], rest[1], rest[2], nullptr);
}

PyMethodDef functions[] = {
    {"transport_from_socket", method(from_socket), METH_FASTCALL,
     "A transport over a connected socket."},
    {"attach_transport", method(attach_transport), METH_FASTCALL,
     "A transport over a connected socket, until its _begin()."},
    {"start_serving", method(start_serving), METH_FASTCALL, "Accepts connections for a Server."},
    {"stop_serving", method(stop_serving), METH_FASTCALL,
     "Ends start_serving(); closes the socket."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_transport_types(PyObject* module) noexcept {
    if (load_transport_names() < 0) return -1;
    ref transports = ref::steal(PyImport_ImportModule("asyncio.transports"));
    ref base = transports
                   ? ref::steal(PyObject_GetAttrString(transports.get(), "_FlowControlMixin"))
                   : ref();
    if (!base || find_slots(base.get()) < 0) return -1;
    ref bases = ref::steal(PyTuple_Pack(1, base.get()));
    ref type = bases ? make_type(bases.get()) : ref();
    if (!type || set_stock_flags(type.get()) < 0) return -1;
    if (PyModule_AddObjectRef(module, "SocketTransport", type.get()) < 0) return -1;
    transport_type = reinterpret_cast<PyTypeObject*>(type.release());
    ledger_add("transports", &live_transports);
    ledger_add("write_blocks", &outgoing_live);
    if (PyModule_AddFunctions(module, functions) < 0) return -1;
    if (add_server_types(module) < 0) return -1;
    if (add_tls_types(module, bases.get()) < 0) return -1;
    return add_stream_types(module);
}

}  // namespace ringloop::python
