// Native methods of streams. Contract in stream_methods.hpp. Thread: the loop's, GIL held.
#include "stream_methods.hpp"

#include "stream_read.hpp"
#include "tls.hpp"
#include "transport.hpp"

namespace ringloop::python {
namespace {

using bridge::method;
using bridge::ref;

PyObject* newline = nullptr;
// The stock functions to fall back to.
PyObject* stock_read = nullptr;
PyObject* stock_readexactly = nullptr;
PyObject* stock_readuntil = nullptr;
PyObject* stock_readline = nullptr;
PyObject* stock_drain = nullptr;

ref transport_behind(const stream_object& stream) noexcept {
    ref transport = stream.get(stream_name()._transport);
    if (!transport) PyErr_Clear();
    return transport;
}

// The link of a reader that our transport feeds, or null: take the stock way.
stream_link* link_behind(PyObject* reader, ref& transport) noexcept {
    transport = transport_behind(stream_object(reader));
    if (!transport) return nullptr;
    PyObject* link = nullptr;
    if (is_transport(transport.get())) {
        transport_state& t = state_of(transport.get());
        if (t.kind == feed::stream) link = t.reader;
    } else if (ref tls = tls_behind(transport.get()); tls) {
        link = as_tls_protocol(tls.get())->reader;
        transport = std::move(tls);
    }
    return reinterpret_cast<stream_link*>(link);
}

PyObject* call_stock(PyObject* function, PyObject* self, PyObject* const* arguments,
                     Py_ssize_t count, PyObject* keywords) noexcept {
    PyObject* all[4] = {self, nullptr, nullptr, nullptr};
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named > 3) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return nullptr;
    }
    for (Py_ssize_t i = 0; i < count + named; ++i) all[1 + i] = arguments[i];
    return PyObject_Vectorcall(function, all, static_cast<std::size_t>(count + 1), keywords);
}

// The one argument as a size, where it is a plain int: false, take the stock way.
bool plain_size(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                Py_ssize_t& size) noexcept {
    if (count != 1 || keywords != nullptr || !PyLong_CheckExact(arguments[0])) return false;
    size = PyLong_AsSsize_t(arguments[0]);
    if (size == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
    return size > 0;
}

PyObject* reader_read(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) noexcept {
    ref transport;
    Py_ssize_t size = 0;
    stream_link* link = link_behind(self, transport);
    if (link == nullptr || !plain_size(arguments, count, keywords, size)) {
        return call_stock(stock_read, self, arguments, count, keywords);
    }
    return bridge::await_source<stream_read>(self, link, read_kind::some, size, nullptr);
}

PyObject* reader_readexactly(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) noexcept {
    ref transport;
    Py_ssize_t size = 0;
    stream_link* link = link_behind(self, transport);
    if (link == nullptr || !plain_size(arguments, count, keywords, size)) {
        return call_stock(stock_readexactly, self, arguments, count, keywords);
    }
    return bridge::await_source<stream_read>(self, link, read_kind::exactly, size, nullptr);
}

PyObject* reader_readuntil(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                           PyObject* keywords) noexcept {
    ref transport;
    stream_link* link = link_behind(self, transport);
    PyObject* separator = count == 0 ? newline : arguments[0];
    if (link == nullptr || count > 1 || keywords != nullptr || !PyBytes_CheckExact(separator) ||
        PyBytes_GET_SIZE(separator) == 0) {
        return call_stock(stock_readuntil, self, arguments, count, keywords);
    }
    return bridge::await_source<stream_read>(self, link, read_kind::until, 0, separator);
}

PyObject* reader_readline(PyObject* self, PyObject*) noexcept {
    ref transport;
    stream_link* link = link_behind(self, transport);
    if (link == nullptr) return call_stock(stock_readline, self, nullptr, 0, nullptr);
    return bridge::await_source<stream_read>(self, link, read_kind::line, 0, newline);
}

PyObject* writer_write(PyObject* self, PyObject* data) noexcept {
    ref transport = stream_object(self).get(stream_name()._transport);
    if (!transport) return nullptr;
    if (is_transport(transport.get())) {
        if (!on_its_thread(transport.get(), "writer.write()")) return nullptr;
        if (transport_write(state_of(transport.get()), data) < 0) return nullptr;
    } else {
        ref done =
            ref::steal(PyObject_CallMethodOneArg(transport.get(), stream_name().write, data));
        if (!done) return nullptr;
    }
    Py_RETURN_NONE;
}

// Whether a transport is open and feeds a reader whose writer may go on.
bool takes_more(PyObject* transport) noexcept {
    if (is_transport(transport)) {
        transport_state& t = state_of(transport);
        return t.kind == feed::stream && !t.closing && t.connection_lost_count == 0 &&
               slot(transport, slots.protocol_paused) == Py_False;
    }
    const ref protocol = tls_behind(transport);
    if (!protocol) return false;
    const tls_protocol& tls = *as_tls_protocol(protocol.get());
    if (tls.reader == nullptr || tls.app_writing_paused || !tls_is_open(tls)) return false;
    if (tls.transport == nullptr || !is_transport(tls.transport)) return false;
    const transport_state& below = state_of(tls.transport);
    return !below.closing && below.connection_lost_count == 0;
}

// Whether drain() has nothing to wait for and nothing to raise.
bool drained(PyObject* self) noexcept {
    const stream_object writer(self);
    ref transport = transport_behind(writer);
    if (!transport || !takes_more(transport.get())) return false;
    ref reader = writer.get(stream_name()._reader);
    ref exception = reader && reader.get() != Py_None
                        ? stream_object(reader.get()).get(stream_name()._exception)
                        : ref();
    if (!exception) PyErr_Clear();
    return exception && exception.get() == Py_None;
}

PyObject* writer_drain(PyObject* self, PyObject*) noexcept {
    if (drained(self)) return bridge::finished_none();
    return PyObject_CallOneArg(stock_drain, self);
}

PyMethodDef reader_methods[] = {
    {"read", method(reader_read), METH_FASTCALL | METH_KEYWORDS,
     "Up to n bytes, once there are any; all until the end with -1."},
    {"readexactly", method(reader_readexactly), METH_FASTCALL | METH_KEYWORDS,
     "Exactly n bytes, or IncompleteReadError."},
    {"readuntil", method(reader_readuntil), METH_FASTCALL | METH_KEYWORDS,
     "Bytes up to and with the separator."},
    {"readline", reader_readline, METH_NOARGS, "One line, with its end."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef writer_methods[] = {
    {"write", writer_write, METH_O, "Queues data; it leaves at the end of this turn."},
    {"drain", writer_drain, METH_NOARGS, "Waits until it is time to write more."},
    {nullptr, nullptr, 0, nullptr}};

// A subclass of `stock` of the same layout (so that `__class__` may change) and the same name.
PyObject* subclass(PyObject* stock, PyMethodDef* methods) noexcept {
    ref name = ref::steal(PyObject_GetAttrString(stock, "__name__"));
    ref space = ref::steal(Py_BuildValue("{s(),ss}", "__slots__", "__module__", "asyncio.streams"));
    ref type = name && space
                   ? ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type),
                                                      "O(O)O", name.get(), stock, space.get()))
                   : ref();
    if (!type) return nullptr;
    for (PyMethodDef* m = methods; m->ml_name != nullptr; ++m) {
        ref descriptor =
            ref::steal(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.get()), m));
        if (!descriptor || PyObject_SetAttrString(type.get(), m->ml_name, descriptor.get()) < 0) {
            return nullptr;
        }
    }
    return type.release();
}

}  // namespace

PyObject* make_native_reader(PyObject* stock) noexcept {
    newline = PyBytes_FromString("\n");
    stock_read = PyObject_GetAttrString(stock, "read");
    stock_readexactly = PyObject_GetAttrString(stock, "readexactly");
    stock_readuntil = PyObject_GetAttrString(stock, "readuntil");
    stock_readline = PyObject_GetAttrString(stock, "readline");
    if (newline == nullptr || stock_read == nullptr || stock_readexactly == nullptr ||
        stock_readuntil == nullptr || stock_readline == nullptr) {
        return nullptr;
    }
    return subclass(stock, reader_methods);
}

PyObject* make_native_writer(PyObject* stock) noexcept {
    stock_drain = PyObject_GetAttrString(stock, "drain");
    return stock_drain != nullptr ? subclass(stock, writer_methods) : nullptr;
}

}  // namespace ringloop::python
