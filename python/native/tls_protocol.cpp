// The base of SSLProtocol: received bytes to the application, written ones to the transport below.
#include <structmember.h>

#include <cstddef>
#include <memory>
#include <new>

#include <utility>

#include "loop.hpp"
#include "streams.hpp"
#include "tls.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

// All records that one call delivers: what the transport below hands over at most, decrypted.
constexpr Py_ssize_t plain_bytes_max = 256 * 1024;
constexpr Py_ssize_t record_bytes_max = 20 * 1024;  // encrypted, and more

PyTypeObject* protocol_type = nullptr;
PyObject* own_buffer_updated = nullptr;

struct tls_names {
    PyObject* read = PyUnicode_InternFromString("read");
    PyObject* write = PyUnicode_InternFromString("write");
    PyObject* pending = PyUnicode_InternFromString("pending");
    PyObject* data_received = PyUnicode_InternFromString("data_received");
    PyObject* on_bytes = PyUnicode_InternFromString("_on_bytes");
    PyObject* peer_closed = PyUnicode_InternFromString("_peer_closed");
    PyObject* after_read = PyUnicode_InternFromString("_after_read");
    PyObject* control_app_writing = PyUnicode_InternFromString("_control_app_writing");
    PyObject* control_ssl_reading = PyUnicode_InternFromString("_control_ssl_reading");
    PyObject* fatal_error = PyUnicode_InternFromString("_fatal_error");
    PyObject* message = PyUnicode_InternFromString("Fatal error on SSL protocol");
};

const tls_names& names() noexcept {
    static const tls_names table;
    return table;
}

// ssl.SSLWantReadError and ssl.SSLSyscallError, as asyncio's SSLAgainErrors; null: no ssl module.
PyObject* again_errors = nullptr;

tls_protocol& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<tls_protocol*>(object);
}
PyObject* object_of(tls_protocol& tls) noexcept {
    return reinterpret_cast<PyObject*>(&tls);
}

bool is_none(PyObject* object) noexcept {
    return object == nullptr || object == Py_None;
}

// Somebody may delete what __init__() has set. False: an exception is set.
bool is_there(PyObject* bio) noexcept {
    if (bio == nullptr) PyErr_SetString(PyExc_RuntimeError, "SSLProtocol.__init__() has not run");
    return bio != nullptr;
}

// Whether received bytes go to the application's data_received() from here.
bool delivers(const tls_protocol& tls) noexcept {
    return tls_is_open(tls) && !tls.app_reading_paused && !tls.app_protocol_is_buffer &&
           !is_none(tls.app_protocol);
}

// bio.pending. -1: an exception is set.
Py_ssize_t pending_of(PyObject* bio) noexcept {
    if (!is_there(bio)) return -1;
    const ref number = ref::steal(PyObject_GetAttr(bio, names().pending));
    return number ? PyLong_AsSsize_t(number.get()) : -1;
}

// A call without a result. 0, or -1 with an exception set.
int call(tls_protocol& tls, PyObject* name) noexcept {
    return ref::steal(PyObject_CallMethodNoArgs(object_of(tls), name)) ? 0 : -1;
}

char* scratch() noexcept {
    static const std::unique_ptr<char[]> memory(new char[plain_bytes_max]);
    return memory.get();
}

// ---- reading

enum class stop {
    dry,     // all whole records were read, each with data in it
    odd,     // no more data: others than data were among them
    full,    // of what one call delivers
    closed,  // the peer's close_notify
    failed,  // an exception is set
};

// Decrypts one record into [to, to + room). Its size; 0: close_notify; -1: an exception is set.
Py_ssize_t read_record(tls_protocol& tls, char* to, Py_ssize_t room) noexcept {
    const ref memory = ref::steal(PyMemoryView_FromMemory(to, room, PyBUF_WRITE));
    const ref size = ref::steal(PyLong_FromSsize_t(room));
    if (!memory || !size) return -1;
    PyObject* const arguments[] = {tls.open, size.get(), memory.get()};
    const ref count = ref::steal(PyObject_VectorcallMethod(
        names().read, arguments, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    return count ? PyLong_AsSsize_t(count.get()) : -1;
}

bool take_again_error() noexcept {
    if (again_errors == nullptr || PyErr_ExceptionMatches(again_errors) == 0) return false;
    PyErr_Clear();
    return true;
}

// Decrypts what is there. `size` bytes of it are in scratch().
stop read_records(tls_protocol& tls, Py_ssize_t& size) noexcept {
    const ref open = ref::share(tls.open);
    while (tls.meter.ready()) {
        const Py_ssize_t count = read_record(tls, scratch() + size, plain_bytes_max - size);
        if (count == 0) return stop::closed;
        if (count < 0) {
            if (!take_again_error()) return stop::failed;
            tls.meter.count_off_all();
            return stop::odd;
        }
        size += count;
        if (size == plain_bytes_max) return stop::full;  // maybe with a part of the record only
        tls.meter.count_off();
    }
    return stop::dry;
}

int deliver_to_stream(tls_protocol& tls, const char* data, Py_ssize_t size) noexcept {
    const fed how = stream_feed(reinterpret_cast<stream_link*>(tls.reader), data,
                                static_cast<std::size_t>(size));
    if (how == fed::above_limit) tls.app_reading_paused = true;
    return how == fed::failed ? -1 : 0;
}

int deliver_to_protocol(tls_protocol& tls, PyObject* data) noexcept {
    const ref protocol = ref::share(tls.app_protocol);
    return ref::steal(PyObject_CallMethodOneArg(protocol.get(), names().data_received, data)) ? 0
                                                                                              : -1;
}

// What is in scratch().
int deliver(tls_protocol& tls, Py_ssize_t size) noexcept {
    if (tls.reader != nullptr) return deliver_to_stream(tls, scratch(), size);
    const ref data = ref::steal(PyBytes_FromStringAndSize(scratch(), size));
    return data ? deliver_to_protocol(tls, data.get()) : -1;
}

// Delivers what was read, also in front of a record that is none: it is genuine.
stop read_some(tls_protocol& tls) noexcept {
    Py_ssize_t size = 0;
    const stop why = read_records(tls, size);
    ref error = why == stop::failed ? bridge::take_exception() : ref();
    if (size > 0 && deliver(tls, size) < 0) return stop::failed;
    if (error) bridge::restore_exception(std::move(error));
    if (why == stop::closed && call(tls, names().peer_closed) < 0) return stop::failed;
    return why;
}

// ---- writing

// 0, or -1 with an exception set.
int send_outgoing(tls_protocol& tls) noexcept {
    Py_ssize_t held = 0;
    if (tls.ssl_writing_paused) {
        held = pending_of(tls.outgoing);
        if (held < 0) return -1;
    } else {
        const ref data = is_there(tls.outgoing)
                             ? ref::steal(PyObject_CallMethodNoArgs(tls.outgoing, names().read))
                             : ref();
        if (!data) return -1;
        if (PyBytes_Check(data.get()) && PyBytes_GET_SIZE(data.get()) > 0) {
            const ref below = ref::share(tls.transport);
            if (!ref::steal(PyObject_CallMethodOneArg(below.get(), names().write, data.get())))
                return -1;
        }
    }
    held += tls.write_buffer_size;
    const bool pause = held >= tls.outgoing_high_water && !tls.app_writing_paused;
    const bool resume = held <= tls.outgoing_low_water && tls.app_writing_paused;
    return pause || resume ? call(tls, names().control_app_writing) : 0;
}

// What reading leaves to be done: answers to the peer's own messages, flow control. 0, or -1 with
// an exception set.
int after_read(tls_protocol& tls, stop why) noexcept {
    const bool plain = why == stop::dry && !tls.ssl_reading_paused && delivers(tls) &&
                       tls.incoming_high_water > record_bytes_max && tls.write_buffer_size == 0;
    if (plain) return 0;
    if (!tls_is_open(tls) || is_none(tls.transport) || tls.write_buffer_size > 0)
        return call(tls, names().after_read);
    const Py_ssize_t answer = pending_of(tls.outgoing);
    if (answer < 0 || (answer > 0 && send_outgoing(tls) < 0)) return -1;
    const Py_ssize_t unread = pending_of(tls.incoming);
    if (unread < 0) return -1;
    const bool pause = unread >= tls.incoming_high_water && !tls.ssl_reading_paused;
    const bool resume = unread <= tls.incoming_low_water && tls.ssl_reading_paused;
    return pause || resume ? call(tls, names().control_ssl_reading) : 0;
}

// ---- methods

// Puts [data, data + size) into the incoming BIO. 0, or -1 with an exception set.
int take(tls_protocol& tls, const char* data, Py_ssize_t size) noexcept {
    if (!is_there(tls.incoming)) return -1;
    tls.meter.show({reinterpret_cast<const std::byte*>(data), static_cast<std::size_t>(size)});
    // The BIO copies it: reading from memory that is not const is all that this is for.
    const ref bytes =
        ref::steal(PyMemoryView_FromMemory(const_cast<char*>(data), size, PyBUF_READ));
    if (!bytes) return -1;
    return ref::steal(PyObject_CallMethodOneArg(tls.incoming, names().write, bytes.get())) ? 0 : -1;
}

PyObject* get_buffer(PyObject* self, PyObject*) noexcept {
    PyObject* const view = self_of(self).buffer_view;
    return is_there(view) ? Py_NewRef(view) : nullptr;
}

PyObject* buffer_updated(PyObject* self, PyObject* number) noexcept {
    tls_protocol& tls = self_of(self);
    const Py_ssize_t size = PyLong_AsSsize_t(number);
    if (size == -1 && PyErr_Occurred() != nullptr) return nullptr;
    if (tls.buffer_view == nullptr || !PyMemoryView_Check(tls.buffer_view) || size < 0 ||
        size > PyMemoryView_GET_BUFFER(tls.buffer_view)->len) {
        PyErr_Format(PyExc_ValueError, "buffer_updated(%zd): no such piece was given", size);
        return nullptr;
    }
    const ref view = ref::share(tls.buffer_view);
    if (take(tls, static_cast<const char*>(PyMemoryView_GET_BUFFER(view.get())->buf), size) < 0 ||
        tls_advance(self) < 0) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* take_bytes(PyObject* self, PyObject* data) noexcept {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return nullptr;
    const int result = take(self_of(self), static_cast<const char*>(view.buf), view.len);
    PyBuffer_Release(&view);
    return result < 0 ? nullptr : Py_NewRef(Py_None);
}

PyObject* deliver_bytes(PyObject* self, PyObject* data) noexcept {
    tls_protocol& tls = self_of(self);
    if (!PyBytes_Check(data) || is_none(tls.app_protocol)) {
        PyErr_SetString(PyExc_TypeError, "_deliver() takes bytes, while there is a protocol");
        return nullptr;
    }
    const int done = tls.reader != nullptr ? deliver_to_stream(tls, PyBytes_AS_STRING(data),
                                                               PyBytes_GET_SIZE(data))
                                           : deliver_to_protocol(tls, data);
    return done < 0 ? nullptr : Py_NewRef(Py_None);
}

PyObject* join_stream(PyObject* self, PyObject* before_made) noexcept {
    tls_protocol& tls = self_of(self);
    const ref previous = ref::steal(std::exchange(tls.reader, nullptr));
    if (!is_none(tls.app_protocol))
        tls.reader = stream_join(tls.app_protocol, before_made == Py_True).release();
    Py_RETURN_NONE;
}

PyObject* inside_record(PyObject* self, void*) noexcept {
    return PyBool_FromLong(self_of(self).meter.unfinished() > 0);
}

PyMethodDef methods[] = {
    {"get_buffer", get_buffer, METH_O, "Where the transport below puts encrypted bytes."},
    {"buffer_updated", buffer_updated, METH_O, "Bytes have come into the buffer."},
    {"_deliver", deliver_bytes, METH_O, "To data_received(), or to the reader behind it."},
    {"_join_stream", join_stream, METH_O,
     "The application's protocol has changed: whether a stock StreamReader is fed from here."},
    {"_take", take_bytes, METH_O, "Bytes that came before: to be read with the next ones."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {
    {"_inside_record", inside_record, nullptr, "Whether a record has begun and not ended.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"_open", T_OBJECT, offsetof(tls_protocol, open), 0, nullptr},
    {"_incoming", T_OBJECT_EX, offsetof(tls_protocol, incoming), 0, nullptr},
    {"_outgoing", T_OBJECT_EX, offsetof(tls_protocol, outgoing), 0, nullptr},
    {"_app_protocol", T_OBJECT_EX, offsetof(tls_protocol, app_protocol), 0, nullptr},
    {"_transport", T_OBJECT_EX, offsetof(tls_protocol, transport), 0, nullptr},
    {"_ssl_buffer_view", T_OBJECT_EX, offsetof(tls_protocol, buffer_view), 0, nullptr},
    {"_write_buffer_size", T_PYSSIZET, offsetof(tls_protocol, write_buffer_size), 0, nullptr},
    {"_incoming_low_water", T_PYSSIZET, offsetof(tls_protocol, incoming_low_water), 0, nullptr},
    {"_incoming_high_water", T_PYSSIZET, offsetof(tls_protocol, incoming_high_water), 0, nullptr},
    {"_outgoing_low_water", T_PYSSIZET, offsetof(tls_protocol, outgoing_low_water), 0, nullptr},
    {"_outgoing_high_water", T_PYSSIZET, offsetof(tls_protocol, outgoing_high_water), 0, nullptr},
    {"_app_protocol_is_buffer", T_BOOL, offsetof(tls_protocol, app_protocol_is_buffer), 0, nullptr},
    {"_app_reading_paused", T_BOOL, offsetof(tls_protocol, app_reading_paused), 0, nullptr},
    {"_app_writing_paused", T_BOOL, offsetof(tls_protocol, app_writing_paused), 0, nullptr},
    {"_ssl_reading_paused", T_BOOL, offsetof(tls_protocol, ssl_reading_paused), 0, nullptr},
    {"_ssl_writing_paused", T_BOOL, offsetof(tls_protocol, ssl_writing_paused), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

// ---- life

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) noexcept {
    PyObject* const self = type->tp_alloc(type, 0);
    if (self != nullptr) new (&self_of(self).meter) record_meter;
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    tls_protocol& tls = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(tls.open);
    Py_VISIT(tls.incoming);
    Py_VISIT(tls.outgoing);
    Py_VISIT(tls.app_protocol);
    Py_VISIT(tls.reader);
    Py_VISIT(tls.transport);
    Py_VISIT(tls.buffer_view);
    return 0;
}

int clear(PyObject* self) noexcept {
    tls_protocol& tls = self_of(self);
    Py_CLEAR(tls.open);
    Py_CLEAR(tls.incoming);
    Py_CLEAR(tls.outgoing);
    Py_CLEAR(tls.app_protocol);
    Py_CLEAR(tls.reader);
    Py_CLEAR(tls.transport);
    Py_CLEAR(tls.buffer_view);
    return 0;
}

void dealloc(PyObject* self) noexcept {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("The data path of ringloop.tls.SSLProtocol.")},
                       {Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {"ringloop._native.TlsProtocol", sizeof(tls_protocol), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

// An interpreter without OpenSSL has no TLS connection either.
int find_again_errors() noexcept {
    const ref sslproto = ref::steal(PyImport_ImportModule("asyncio.sslproto"));
    if (!sslproto) return -1;
    again_errors = PyObject_GetAttrString(sslproto.get(), "SSLAgainErrors");
    if (again_errors == nullptr) PyErr_Clear();
    return 0;
}

}  // namespace

tls_protocol* as_tls_protocol(PyObject* object) noexcept {
    if (object == nullptr || !PyObject_TypeCheck(object, protocol_type)) return nullptr;
    return &self_of(object);
}

bool tls_takes_bytes(PyObject* protocol) noexcept {
    if (as_tls_protocol(protocol) == nullptr) return false;
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(protocol));
    const ref updated = ref::steal(PyObject_GetAttrString(type, "buffer_updated"));
    if (!updated) PyErr_Clear();
    return updated.get() == own_buffer_updated;
}

int tls_take(PyObject* protocol, const char* data, std::size_t size) noexcept {
    return take(self_of(protocol), data, static_cast<Py_ssize_t>(size));
}

int tls_advance(PyObject* protocol) noexcept {
    tls_protocol& tls = self_of(protocol);
    if (!delivers(tls)) return call(tls, names().on_bytes);
    stop why = stop::full;
    while (why == stop::full && delivers(tls)) why = read_some(tls);
    return why == stop::failed || after_read(tls, why) < 0 ? tls_failed(tls) : 0;
}

int tls_send(tls_protocol& tls, PyObject* data) noexcept {
    if (!tls_is_open(tls) || is_none(tls.transport) || tls.write_buffer_size > 0) return 0;
    const Py_ssize_t size =
        PyBytes_Check(data) ? PyBytes_GET_SIZE(data) : PyByteArray_GET_SIZE(data);
    const ref count = ref::steal(PyObject_CallMethodOneArg(tls.open, names().write, data));
    // Asked again with the same bytes, OpenSSL goes on where it is.
    if (!count && take_again_error()) return 0;
    if (!count) return tls_failed(tls) < 0 ? -1 : 1;
    // A BIO in memory takes everything.
    if (PyLong_AsSsize_t(count.get()) != size)
        PyErr_SetString(PyExc_RuntimeError, "OpenSSL took a part of what was written");
    else if (send_outgoing(tls) == 0)
        return 1;
    return tls_failed(tls) < 0 ? -1 : 1;
}

int tls_failed(tls_protocol& tls) noexcept {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return -1;
    const ref error = bridge::take_exception();
    PyObject* const arguments[] = {object_of(tls), error.get(), names().message};
    return ref::steal(PyObject_VectorcallMethod(names().fatal_error, arguments,
                                                3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr))
               ? 0
               : -1;
}

int add_tls_types(PyObject* module, PyObject* bases) noexcept {
    if (find_again_errors() < 0) return -1;
    const ref type = ref::steal(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (!type || PyModule_AddObjectRef(module, "TlsProtocol", type.get()) < 0) return -1;
    protocol_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
    own_buffer_updated = PyObject_GetAttrString(type.get(), "buffer_updated");
    if (own_buffer_updated == nullptr) return -1;
    return add_tls_transport_type(module, bases);
}

}  // namespace ringloop::python
