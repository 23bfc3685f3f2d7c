// The native data path of asyncio's streams: received bytes go straight into the buffer of an exact
// stock StreamReader under an exact stock StreamReaderProtocol, from a socket or out of TLS.
// Everything else (subclasses, another protocol set later) takes the protocol's own methods.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "ringloop/bridge/python/ref.hpp"
#include "stream_read.hpp"

namespace ringloop::python {

// The link by which a transport feeds the reader behind `protocol`; null, without an exception: its
// own methods are to be called. A stock reader becomes a native one, and so will the writer that
// start_server()'s callback gets, where connection_made() is still to come (`before_made`).
[[nodiscard]] bridge::ref stream_join(PyObject* protocol, bool before_made) noexcept;

enum class fed : std::uint8_t {
    all,          // it wants more
    above_limit,  // the reader expects of its transport that it pauses reading now
    failed,       // an exception is set
};
// Gives all of `data` to the reader, as data_received() would. Runs no code of the user's.
[[nodiscard]] fed stream_feed(stream_link* link, const char* data, std::size_t size) noexcept;

int add_stream_types(PyObject* module) noexcept;

}  // namespace ringloop::python
