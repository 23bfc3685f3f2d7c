// Interned names and stock asyncio objects that the transports use; filled once by
// add_transport_types(). GIL held.
#pragma once

#include <Python.h>

namespace ringloop::python {

struct transport_names {
    // Attributes of protocols, transports, servers, loops, sockets.
    PyObject* connection_made;
    PyObject* connection_lost;
    PyObject* data_received;
    PyObject* eof_received;
    PyObject* get_buffer;
    PyObject* buffer_updated;
    PyObject* call_exception_handler;
    PyObject* get_extra_info;
    PyObject* close;
    PyObject* _attach;
    PyObject* _detach;
    PyObject* _start_reading;
    PyObject* _deliver_held;
    PyObject* _call_connection_lost;
    PyObject* _maybe_pause_protocol;
    PyObject* _maybe_resume_protocol;
    PyObject* set_result;
    PyObject* cancelled;
    PyObject* socket;
    PyObject* sockname;
    PyObject* peername;
    // Shared values.
    PyObject* default_high_water;  // 65536
    PyObject* default_low_water;   // 16384
    // Stock objects.
    PyObject* stock_get_extra_info;         // asyncio.BaseTransport.get_extra_info
    PyObject* buffered_protocol;            // asyncio.BufferedProtocol
    PyObject* set_result_unless_cancelled;  // asyncio.futures
    bool server_takes_transport;            // Server._attach(transport): from 3.13
};

[[nodiscard]] transport_names& names() noexcept;
// 0, or -1 with an exception set.
int load_transport_names() noexcept;

extern long live_transports;

}  // namespace ringloop::python
