// The native data path of asyncio's streams. Contract in streams.hpp.
#include "streams.hpp"

namespace ringloop::python {

void stream_protocol_changed(transport_state&) noexcept {}
void stream_connection_made(transport_state&) noexcept {}
bool stream_feed(transport_state&, const char*, std::size_t) noexcept {
    return false;
}
int add_stream_types(PyObject*) noexcept {
    return 0;
}

}  // namespace ringloop::python
