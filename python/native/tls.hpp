// The data path of TLS: what ringloop.tls.SSLProtocol and SSLTransport do per read and per write.
//
// Both Python classes derive from one of these and from asyncio's own. Handshake, shutdown, pauses
// of the application, buffered protocols and every error stay in Python; here is what happens while
// a connection is open and nothing is unusual: encrypted bytes into OpenSSL, plain ones out of it
// and to data_received(), and the way back. Attributes that the stock classes set, under the names
// they have there, are members of these types, so that both sides see one state.
//
// Two things make it quick: OpenSSL is asked only when a whole record is there (its exception for
// "nothing more" is dearer than decrypting a short record), and no read allocates for what might
// come.
//
// Thread: the loop's, GIL held (OpenSSL's calls release it). Application callbacks run inside
// buffer_updated(), in the context of the connection below.
#pragma once

#include <Python.h>

#include <cstddef>

#include "ringloop/bridge/python/ref.hpp"
#include "tls_records.hpp"

namespace ringloop::python {

// The base of SSLProtocol.
struct tls_protocol {
    PyObject_HEAD
    // The connection's _ssl._SSLSocket while application data may pass, else null or None.
    PyObject* open;
    PyObject* incoming;      // ssl.MemoryBIO: encrypted, from the peer
    PyObject* outgoing;      // ssl.MemoryBIO: encrypted, for the peer
    PyObject* app_protocol;  // null or None once the connection is lost
    PyObject* reader;        // the stream_link of a stock StreamReader behind it, or null
    PyObject* transport;     // the transport below; null or None before and after it
    PyObject* buffer_view;   // memoryview of the buffer that the transport below fills
    Py_ssize_t write_buffer_size;  // plain bytes in the backlog, which goes first
    Py_ssize_t incoming_low_water;
    Py_ssize_t incoming_high_water;
    Py_ssize_t outgoing_low_water;
    Py_ssize_t outgoing_high_water;
    bool app_protocol_is_buffer;
    bool app_reading_paused;
    bool app_writing_paused;
    bool ssl_reading_paused;
    bool ssl_writing_paused;
    record_meter meter;  // of everything that went into `incoming`
};

// The tls_protocol in `object`; null: it is something else.
[[nodiscard]] tls_protocol* as_tls_protocol(PyObject* object) noexcept;
// The SSLProtocol of an SSLTransport; null, with no exception set: it is something else, or closed.
[[nodiscard]] bridge::ref tls_behind(PyObject* transport) noexcept;
// Whether application data may pass.
[[nodiscard]] inline bool tls_is_open(const tls_protocol& tls) noexcept {
    return tls.open != nullptr && tls.open != Py_None;
}

// Whether a transport may give its bytes to `protocol` by the two calls below, in place of
// get_buffer() and buffer_updated(): a SSLProtocol that has these from here.
[[nodiscard]] bool tls_takes_bytes(PyObject* protocol) noexcept;
// Copies them: nothing of the user's runs. 0, or -1 with an exception set.
[[nodiscard]] int tls_take(PyObject* protocol, const char* data, std::size_t size) noexcept;
// Goes on with what was taken: handshake, data_received(), answers. 0, or -1 with an exception set.
[[nodiscard]] int tls_advance(PyObject* protocol) noexcept;

// Encrypts and sends `data` (bytes or bytearray, not empty) if nothing stands in the way. 1: done;
// 0: not begun, Python's way is to be taken; -1: an exception is set.
[[nodiscard]] int tls_send(tls_protocol& tls, PyObject* data) noexcept;

// Takes the exception that is set to SSLProtocol._fatal_error(), unless it ends the run. 0, or -1
// with an exception set.
[[nodiscard]] int tls_failed(tls_protocol& tls) noexcept;

// `bases`: (asyncio's _FlowControlMixin,), whose slots transport.hpp knows.
int add_tls_types(PyObject* module, PyObject* bases) noexcept;
int add_tls_transport_type(PyObject* module, PyObject* bases) noexcept;

}  // namespace ringloop::python
