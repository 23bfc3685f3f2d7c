// The native data path of asyncio's streams: joining transport, reader and writer; feeding.
// Contract in streams.hpp. Thread: the loop's, GIL held.
#include "streams.hpp"

#include <structmember.h>

#include "stream_methods.hpp"
#include "stream_read.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

PyObject* reader_class = nullptr;    // asyncio.StreamReader
PyObject* writer_class = nullptr;    // asyncio.StreamWriter
PyObject* protocol_class = nullptr;  // asyncio.StreamReaderProtocol
PyObject* native_reader_class = nullptr;
PyObject* native_writer_class = nullptr;

bool is_exactly(PyObject* object, PyObject* type) noexcept {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

// Methods that the native path goes past: a program that has replaced one, on the class or on the
// reader, has the stock way.
struct stock_method {
    const char* const text;
    PyObject* name;      // interned
    PyObject* function;  // as asyncio has it
};
stock_method reader_methods[] = {{"feed_data", nullptr, nullptr},
                                 {"read", nullptr, nullptr},
                                 {"readexactly", nullptr, nullptr},
                                 {"readline", nullptr, nullptr},
                                 {"readuntil", nullptr, nullptr}};
stock_method data_received = {"data_received", nullptr, nullptr};

int keep_stock_method(PyObject* type, stock_method& method) noexcept {
    method.name = PyUnicode_InternFromString(method.text);
    method.function = method.name != nullptr ? PyObject_GetAttr(type, method.name) : nullptr;
    return method.function != nullptr ? 0 : -1;
}

int keep_stock_methods() noexcept {
    for (stock_method& each : reader_methods)
        if (keep_stock_method(reader_class, each) < 0) return -1;
    return keep_stock_method(protocol_class, data_received);
}

// 1: it is another one now; 0: as it was; -1 with an exception set.
int has_changed(PyObject* type, const stock_method& method) noexcept {
    const ref found = ref::steal(PyObject_GetAttr(type, method.name));
    return found ? found.get() != method.function : -1;
}

// 1: replaced, 0: all as they were; -1 with an exception set.
int is_replaced(PyObject* reader) noexcept {
    const ref own = ref::steal(PyObject_GenericGetDict(reader, nullptr));
    if (!own) return -1;
    for (const stock_method& each : reader_methods) {
        if (const int changed = has_changed(reader_class, each); changed != 0) return changed;
        if (const int there = PyDict_Contains(own.get(), each.name); there != 0) return there;
    }
    return has_changed(protocol_class, data_received);
}

int become(PyObject* object, PyObject* type) noexcept {
    return PyObject_SetAttrString(object, "__class__", type);
}

ref referent(PyObject* reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(reference, &object) < 0) PyErr_Clear();
    return ref::steal(object);
#else
    PyObject* object = PyWeakref_GetObject(reference);
    return object == nullptr || object == Py_None ? ref() : ref::share(object);
#endif
}

// ---- the callback of start_server(): gets a native writer

struct connected_object {
    PyObject_HEAD vectorcallfunc call;
    PyObject* callback;
};
PyTypeObject* connected_type = nullptr;

connected_object* connected(PyObject* self) noexcept {
    return reinterpret_cast<connected_object*>(self);
}

PyObject* call_connected(PyObject* self, PyObject* const* arguments, std::size_t count,
                         PyObject* keywords) {
    ref callback = ref::share(connected(self)->callback);
    if (PyVectorcall_NARGS(count) == 2 && is_exactly(arguments[1], writer_class)) {
        PyObject* writer = arguments[1];
        ref protocol = ref::steal(PyObject_GetAttr(writer, stream_name()._protocol));
        if (!protocol ||
            PyObject_SetAttr(protocol.get(), stream_name()._client_connected_cb, callback.get()) <
                0 ||
            become(writer, native_writer_class) < 0) {
            return nullptr;
        }
    }
    return PyObject_Vectorcall(callback.get(), arguments, count, keywords);
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(connected(self)->callback);
    return 0;
}
int clear(PyObject* self) noexcept {
    Py_CLEAR(connected(self)->callback);
    return 0;
}
void dealloc(PyObject* self) noexcept {
    PyObject_GC_UnTrack(self);
    clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMemberDef connected_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(connected_object, call), READONLY, nullptr},
    {"__wrapped__", T_OBJECT_EX, offsetof(connected_object, callback), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

int add_connected_type() noexcept {
    PyType_Slot type_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_members, connected_members},
                                {0, nullptr}};
    PyType_Spec spec = {"ringloop._native._ClientConnected", sizeof(connected_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                            Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        type_slots};
    connected_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return connected_type != nullptr ? 0 : -1;
}

int wrap_callback(PyObject* protocol) noexcept {
    ref callback = ref::steal(PyObject_GetAttr(protocol, stream_name()._client_connected_cb));
    if (!callback) return -1;
    if (callback.get() == Py_None ||
        is_exactly(callback.get(), reinterpret_cast<PyObject*>(connected_type))) {
        return 0;
    }
    ref wrapper = ref::steal(connected_type->tp_alloc(connected_type, 0));
    if (!wrapper) return -1;
    connected(wrapper.get())->call = call_connected;
    connected(wrapper.get())->callback = callback.release();
    return PyObject_SetAttr(protocol, stream_name()._client_connected_cb, wrapper.get());
}

// Null: not a case for us, or an exception is set.
ref join(PyObject* protocol, bool before_made) noexcept {
    ref reference = ref::steal(PyObject_GetAttr(protocol, stream_name()._stream_reader_wr));
    if (!reference || !PyWeakref_Check(reference.get())) return {};
    ref reader = referent(reference.get());
    if (!reader) return {};
    const bool stock = is_exactly(reader.get(), reader_class);
    if (!stock && !is_exactly(reader.get(), native_reader_class)) return {};
    if (is_replaced(reader.get()) != 0) return {};
    ref link = ref::steal(reinterpret_cast<PyObject*>(make_stream_link(reference.get())));
    if (!link) return {};
    if (stock && become(reader.get(), native_reader_class) < 0) return {};
    if (before_made && wrap_callback(protocol) < 0) return {};
    return link;
}

// Stock flow control: above twice the limit the transport pauses.
fed check_limit(const stream_object& reader, std::size_t size) noexcept {
    const Py_ssize_t limit = reader_limit(reader);
    if (limit < 0) return fed::failed;
    if (size / 2 < static_cast<std::size_t>(limit) || size <= 2 * static_cast<std::size_t>(limit)) {
        return fed::all;
    }
    const int paused = reader.flag(stream_name()._paused);
    if (paused != 0) return paused < 0 ? fed::failed : fed::all;
    return reader.set(stream_name()._paused, Py_True) < 0 ? fed::failed : fed::above_limit;
}

// Appends to the buffer and tells whoever waits.
fed feed_buffer(const stream_object& reader, stream_link& link, const char* data,
                std::size_t size) noexcept {
    ref buffer = reader_buffer(reader);
    if (!buffer) return fed::failed;
    if (link.parked != nullptr && PyByteArray_GET_SIZE(buffer.get()) == 0) {
        const std::size_t taken = link.parked->offer(reader, data, size);
        data += taken;
        size -= taken;
        if (size == 0) return fed::all;
        if (append_to(buffer.get(), data, size) < 0) return fed::failed;
    } else {
        if (append_to(buffer.get(), data, size) < 0) return fed::failed;
        if (link.parked != nullptr) {
            link.parked->look_again();
        } else {
            ref waiter = reader.get(stream_name()._waiter);
            if (!waiter) return fed::failed;
            if (waiter.get() != Py_None) {
                ref done = ref::steal(
                    PyObject_CallMethodNoArgs(reader.object(), stream_name()._wakeup_waiter));
                if (!done) return fed::failed;
            }
        }
    }
    // A read that wants more than there is would starve behind a pause.
    if (link.parked != nullptr) return fed::all;
    return check_limit(reader, static_cast<std::size_t>(PyByteArray_GET_SIZE(buffer.get())));
}

}  // namespace

ref stream_join(PyObject* protocol, bool before_made) noexcept {
    if (!is_exactly(protocol, protocol_class)) return {};
    ref link = join(protocol, before_made);
    if (!link) PyErr_Clear();  // the stock way works without us
    return link;
}

fed stream_feed(stream_link* link, const char* data, std::size_t size) noexcept {
    const ref keep = ref::share(reinterpret_cast<PyObject*>(link));
    ref reader = referent(link->reader);
    if (!reader) return fed::all;  // nobody reads any more: dropped, as the stock protocol does
    return feed_buffer(stream_object(reader.get()), *link, data, size);
}

int add_stream_types(PyObject*) noexcept {
    ref module = ref::steal(PyImport_ImportModule("asyncio.streams"));
    if (!module || load_stream_names() < 0 || add_stream_link_type() < 0 ||
        add_connected_type() < 0) {
        return -1;
    }
    reader_class = PyObject_GetAttrString(module.get(), "StreamReader");
    writer_class = PyObject_GetAttrString(module.get(), "StreamWriter");
    protocol_class = PyObject_GetAttrString(module.get(), "StreamReaderProtocol");
    if (reader_class == nullptr || writer_class == nullptr || protocol_class == nullptr) return -1;
    if (keep_stock_methods() < 0) return -1;
    native_reader_class = make_native_reader(reader_class);
    native_writer_class = make_native_writer(writer_class);
    return native_reader_class != nullptr && native_writer_class != nullptr ? 0 : -1;
}

}  // namespace ringloop::python
