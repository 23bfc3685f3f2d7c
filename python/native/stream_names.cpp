// Interned names and exceptions of asyncio.streams. GIL held.
#include "ringloop/bridge/python/ref.hpp"
#include "stream_read.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

stream_names table = {};

}  // namespace

stream_names& stream_name() noexcept {
    return table;
}

int load_stream_names() noexcept {
    const struct {
        PyObject** where;
        const char* text;
    } all[] = {
        {&table._buffer, "_buffer"},
        {&table._client_connected_cb, "_client_connected_cb"},
        {&table._eof, "_eof"},
        {&table._exception, "_exception"},
        {&table._loop, "_loop"},
        {&table._limit, "_limit"},
        {&table._maybe_resume_transport, "_maybe_resume_transport"},
        {&table._paused, "_paused"},
        {&table._protocol, "_protocol"},
        {&table._reader, "_reader"},
        {&table._stream_reader_wr, "_stream_reader_wr"},
        {&table._transport, "_transport"},
        {&table._waiter, "_waiter"},
        {&table._wakeup_waiter, "_wakeup_waiter"},
        {&table.resume_reading, "resume_reading"},
        {&table.write, "write"},
    };
    for (const auto& entry : all) {
        *entry.where = PyUnicode_InternFromString(entry.text);
        if (*entry.where == nullptr) return -1;
    }
    ref module = ref::steal(PyImport_ImportModule("asyncio.exceptions"));
    if (!module) return -1;
    table.incomplete_read_error = PyObject_GetAttrString(module.get(), "IncompleteReadError");
    table.limit_overrun_error = PyObject_GetAttrString(module.get(), "LimitOverrunError");
    return table.incomplete_read_error != nullptr && table.limit_overrun_error != nullptr ? 0 : -1;
}

}  // namespace ringloop::python
