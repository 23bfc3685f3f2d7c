// Loading of the names and stock objects. GIL held.
#include "transport_names.hpp"

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

transport_names table = {};

PyObject* from_module(const char* module, const char* name) noexcept {
    ref imported = ref::steal(PyImport_ImportModule(module));
    return imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
}

// Server._attach takes the transport from 3.13 on; asked of the function, as some 3.12 releases
// have it backported.
bool attach_takes_transport() noexcept {
    ref server = ref::steal(from_module("asyncio.base_events", "Server"));
    ref attach = server ? ref::steal(PyObject_GetAttrString(server.get(), "_attach")) : ref();
    ref code = attach ? ref::steal(PyObject_GetAttrString(attach.get(), "__code__")) : ref();
    ref count = code ? ref::steal(PyObject_GetAttrString(code.get(), "co_argcount")) : ref();
    if (!count) {
        PyErr_Clear();
        return PY_VERSION_HEX >= 0x030D0000;
    }
    return PyLong_AsLong(count.get()) == 2;
}

int intern_all() noexcept {
    const struct {
        PyObject** where;
        const char* text;
    } all[] = {
        {&table.connection_made, "connection_made"},
        {&table.connection_lost, "connection_lost"},
        {&table.data_received, "data_received"},
        {&table.eof_received, "eof_received"},
        {&table.get_buffer, "get_buffer"},
        {&table.buffer_updated, "buffer_updated"},
        {&table.call_exception_handler, "call_exception_handler"},
        {&table.get_extra_info, "get_extra_info"},
        {&table.close, "close"},
        {&table._attach, "_attach"},
        {&table._detach, "_detach"},
        {&table._start_reading, "_start_reading"},
        {&table._deliver_held, "_deliver_held"},
        {&table._call_connection_lost, "_call_connection_lost"},
        {&table._maybe_pause_protocol, "_maybe_pause_protocol"},
        {&table._maybe_resume_protocol, "_maybe_resume_protocol"},
        {&table.set_result, "set_result"},
        {&table.cancelled, "cancelled"},
        {&table.socket, "socket"},
        {&table.sockname, "sockname"},
        {&table.peername, "peername"},
    };
    for (const auto& entry : all) {
        *entry.where = PyUnicode_InternFromString(entry.text);
        if (*entry.where == nullptr) return -1;
    }
    return 0;
}

}  // namespace

transport_names& names() noexcept {
    return table;
}

int load_transport_names() noexcept {
    if (table.buffered_protocol != nullptr) return 0;
    if (intern_all() < 0) return -1;
    table.default_high_water = PyLong_FromLong(64 * 1024);
    table.default_low_water = PyLong_FromLong(16 * 1024);
    table.set_result_unless_cancelled =
        from_module("asyncio.futures", "_set_result_unless_cancelled");
    ref transport = ref::steal(from_module("asyncio.transports", "BaseTransport"));
    if (!transport) return -1;
    table.stock_get_extra_info = PyObject_GetAttr(transport.get(), table.get_extra_info);
    if (table.stock_get_extra_info == nullptr || table.default_high_water == nullptr ||
        table.default_low_water == nullptr || table.set_result_unless_cancelled == nullptr) {
        return -1;
    }
    table.server_takes_transport = attach_takes_transport();
    table.buffered_protocol = from_module("asyncio.protocols", "BufferedProtocol");
    return table.buffered_protocol != nullptr ? 0 : -1;
}

}  // namespace ringloop::python
