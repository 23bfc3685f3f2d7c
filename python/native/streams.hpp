// The native data path of asyncio's streams: received bytes go straight into the buffer of an exact
// stock StreamReader under an exact stock StreamReaderProtocol. Everything else (subclasses,
// another protocol set later, TLS) takes the protocol's own methods. Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include <cstddef>

#include "transport.hpp"

namespace ringloop::python {

// The protocol was set: decides whether this transport feeds a reader (feed::stream). A stock
// reader then becomes a native one, and so will the writer that start_server()'s callback gets.
void stream_protocol_changed(transport_state& t) noexcept;
// Gives all of `data` to the reader, as data_received() would.
void stream_feed(transport_state& t, const char* data, std::size_t size) noexcept;

int add_stream_types(PyObject* module) noexcept;

}  // namespace ringloop::python
