// Reads of a StreamReader. Contract in stream_read.hpp. Thread: the loop's, GIL held.
#include "stream_read.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::python {

using bridge::ref;

PyTypeObject* stream_link_type = nullptr;

namespace {

constexpr std::size_t nowhere = SIZE_MAX;

std::size_t find(const char* data, std::size_t size, std::size_t from,
                 PyObject* separator) noexcept {
    const char* wanted = PyBytes_AS_STRING(separator);
    const auto length = static_cast<std::size_t>(PyBytes_GET_SIZE(separator));
    if (from >= size) return nowhere;
    const void* at = length == 1 ? std::memchr(data + from, wanted[0], size - from)
                                 : memmem(data + from, size - from, wanted, length);
    if (at == nullptr) return nowhere;
    return static_cast<std::size_t>(static_cast<const char*>(at) - data);
}

ref bytes_of(const char* data, std::size_t size) noexcept {
    return ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
}

stream_link& link_of(PyObject* object) noexcept {
    return *reinterpret_cast<stream_link*>(object);
}

// ---- stream_link as the reader's waiter

PyObject* link_cancelled(PyObject* self, PyObject*) noexcept {
    return PyBool_FromLong(link_of(self).parked == nullptr);
}
PyObject* link_set_result(PyObject* self, PyObject*) noexcept {
    if (link_of(self).parked != nullptr) link_of(self).parked->look_again();
    Py_RETURN_NONE;
}
PyObject* link_set_exception(PyObject* self, PyObject* exception) noexcept {
    if (link_of(self).parked != nullptr) link_of(self).parked->fail(exception);
    Py_RETURN_NONE;
}

PyMethodDef link_methods[] = {{"cancelled", link_cancelled, METH_NOARGS, nullptr},
                              {"done", link_cancelled, METH_NOARGS, nullptr},
                              {"set_result", link_set_result, METH_O, nullptr},
                              {"set_exception", link_set_exception, METH_O, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

void link_dealloc(PyObject* self) noexcept {
    assert(link_of(self).parked == nullptr && link_of(self).holder == nullptr);
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(link_of(self).reader);
    type->tp_free(self);
    Py_DECREF(type);
}

}  // namespace

stream_link* make_stream_link(PyObject* reader_reference) noexcept {
    auto* link = reinterpret_cast<stream_link*>(stream_link_type->tp_alloc(stream_link_type, 0));
    if (link != nullptr) link->reader = Py_NewRef(reader_reference);
    return link;
}

int add_stream_link_type() noexcept {
    PyType_Slot type_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(link_dealloc)},
                                {Py_tp_methods, link_methods},
                                {0, nullptr}};
    PyType_Spec spec = {"ringloop._native._StreamLink", sizeof(stream_link), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, type_slots};
    stream_link_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return stream_link_type != nullptr ? 0 : -1;
}

// ---- attributes

ref reader_buffer(const stream_object& reader) noexcept {
    ref buffer = reader.get(stream_name()._buffer);
    if (buffer && !PyByteArray_CheckExact(buffer.get())) {
        PyErr_SetString(PyExc_TypeError, "StreamReader._buffer is no bytearray");
        return {};
    }
    return buffer;
}

Py_ssize_t reader_limit(const stream_object& reader) noexcept {
    ref value = reader.get(stream_name()._limit);
    if (!value) return -1;
    const Py_ssize_t limit = PyNumber_AsSsize_t(value.get(), nullptr);  // clipped
    return limit == -1 && PyErr_Occurred() != nullptr ? -1 : std::max<Py_ssize_t>(limit, 0);
}

int append_to(PyObject* buffer, const char* data, std::size_t size) noexcept {
    const Py_ssize_t before = PyByteArray_GET_SIZE(buffer);
    if (PyByteArray_Resize(buffer, before + static_cast<Py_ssize_t>(size)) < 0) return -1;
    std::memcpy(PyByteArray_AS_STRING(buffer) + before, data, size);
    return 0;
}

// ---- the read

stream_read::stream_read(PyObject* reader, stream_link* link, read_kind kind, Py_ssize_t count,
                         PyObject* separator) noexcept
    : reader_(ref::share(reader)),
      link_(ref::share(reinterpret_cast<PyObject*>(link))),
      separator_(ref::share(separator)),
      count_(static_cast<std::size_t>(count)),
      kind_(kind) {}

stream_read::~stream_read() {
    stream_link& link = link_of(link_.get());
    assert(link.parked != this);
    if (link.holder != this) return;
    link.holder = nullptr;
    if (link.parked == nullptr) return;
    ref pending = bridge::take_exception();
    link.parked->look_again();
    if (pending) bridge::restore_exception(std::move(pending));
}

void stream_read::start(bridge::loop_host&, bridge::awaitable& owner) noexcept {
    owner_ = &owner;
    const stream_object reader(reader_.get());
    ref exception = reader.get(stream_name()._exception);
    if (!exception) {
        keep_error();
    } else if (exception.get() != Py_None) {
        error_ = std::move(exception);
    } else if (link_of(link_.get()).holder != nullptr || !evaluate_buffer(reader)) {
        if (park(reader)) {
            takes_back = true;  // from here on a task can be cancelled between the end and the take
            return;
        }
        keep_error();
    }
    owner.finish();
}

bool stream_read::park(const stream_object& reader) noexcept {
    const ref loop = reader.get(stream_name()._loop);
    ref waiter = loop ? reader.get(stream_name()._waiter) : ref();
    if (!waiter) return false;
    if (loop.get() != owner_->loop) {
        PyErr_Format(bridge::affinity_error(),
                     "this StreamReader belongs to %R and cannot be waited for on %R", loop.get(),
                     owner_->loop);
        return false;
    }
    if (waiter.get() != Py_None) {
        const char* name = kind_ == read_kind::some      ? "read"
                           : kind_ == read_kind::exactly ? "readexactly"
                                                         : "readuntil";
        PyErr_Format(PyExc_RuntimeError,
                     "%s() called while another coroutine is already waiting for incoming data",
                     name);
        return false;
    }
    // Waiting while paused would never end (a readexactly() beyond the limit).
    const int paused = reader.flag(stream_name()._paused);
    if (paused < 0) return false;
    if (paused == 1) {
        if (reader.set(stream_name()._paused, Py_False) < 0) return false;
        ref transport = reader.get(stream_name()._transport);
        ref done = transport ? ref::steal(PyObject_CallMethodNoArgs(transport.get(),
                                                                    stream_name().resume_reading))
                             : ref();
        if (!done) return false;
    }
    if (reader.set(stream_name()._waiter, link_.get()) < 0) return false;
    link_of(link_.get()).parked = this;
    return true;
}

// `_waiter` is cleared unless the stock code has done so, or has put another one there.
void stream_read::unpark(const stream_object& reader) noexcept {
    stream_link& link = link_of(link_.get());
    if (link.parked != this) return;
    link.parked = nullptr;
    ref waiter = reader.get(stream_name()._waiter);
    if (!waiter ||
        (waiter.get() == link_.get() && reader.set(stream_name()._waiter, Py_None) < 0)) {
        PyErr_WriteUnraisable(reader_.get());
    }
}

void stream_read::request_cancel() noexcept {
    if (link_of(link_.get()).parked != this) return;
    unpark(stream_object(reader_.get()));
    owner_->finish();
}

void stream_read::collect() noexcept {
    request_cancel();
}

PyObject* stream_read::result() noexcept {
    if (error_) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error_.get())), error_.get());
        return nullptr;
    }
    return value_.release();
}

void stream_read::undelivered(PyObject* value) noexcept {
    if (value == nullptr || !PyBytes_CheckExact(value) || PyBytes_GET_SIZE(value) == 0) return;
    ref pending = bridge::take_exception();
    ref buffer = reader_buffer(stream_object(reader_.get()));
    if (!buffer || PySequence_SetSlice(buffer.get(), 0, 0, value) < 0) {
        PyErr_WriteUnraisable(reader_.get());
    }
    if (pending) bridge::restore_exception(std::move(pending));
}

void stream_read::end(const stream_object& reader) noexcept {
    unpark(reader);
    if (value_ && PyBytes_GET_SIZE(value_.get()) != 0) link_of(link_.get()).holder = this;
    owner_->finish();
}

std::size_t stream_read::offer(const stream_object& reader, const char* data,
                               std::size_t size) noexcept {
    if (link_of(link_.get()).holder != nullptr) return 0;
    std::size_t taken = 0;
    scanned_ = 0;
    const bool over = evaluate(reader, data, size, false, taken);
    if (!over) return 0;
    end(reader);
    return taken;
}

void stream_read::look_again() noexcept {
    const stream_object reader(reader_.get());
    if (link_of(link_.get()).holder != nullptr || !evaluate_buffer(reader)) {
        // Stock code took the waiter away to wake us, but there is not enough yet, or others' bytes
        // may come back first.
        if (reader.set(stream_name()._waiter, link_.get()) == 0) return;
        keep_error();
    }
    end(reader);
}

void stream_read::fail(PyObject* exception) noexcept {
    error_ = PyExceptionClass_Check(exception) ? ref::steal(PyObject_CallNoArgs(exception))
                                               : ref::share(exception);
    if (!error_) keep_error();
    unpark(stream_object(reader_.get()));
    owner_->finish();
}

bool stream_read::evaluate_buffer(const stream_object& reader) noexcept {
    ref buffer = reader_buffer(reader);
    const int ended = buffer ? reader.flag(stream_name()._eof) : -1;
    if (ended < 0) {
        keep_error();
        return true;
    }
    std::size_t taken = 0;
    const auto size = static_cast<std::size_t>(PyByteArray_GET_SIZE(buffer.get()));
    if (!evaluate(reader, PyByteArray_AS_STRING(buffer.get()), size, ended == 1, taken))
        return false;
    if (taken > 0 && PySequence_DelSlice(buffer.get(), 0, static_cast<Py_ssize_t>(taken)) < 0) {
        keep_error();
        value_ = {};
        return true;
    }
    const int paused = reader.flag(stream_name()._paused);
    ref done;
    if (paused == 1) {
        done = ref::steal(
            PyObject_CallMethodNoArgs(reader.object(), stream_name()._maybe_resume_transport));
    }
    if (paused < 0 || (paused == 1 && !done)) PyErr_WriteUnraisable(reader.object());
    return true;
}

bool stream_read::evaluate(const stream_object& reader, const char* data, std::size_t size,
                           bool ended, std::size_t& taken) noexcept {
    switch (kind_) {
        case read_kind::some:
            if (size == 0 && !ended) return false;
            taken = std::min(size, count_);
            break;
        case read_kind::exactly:
            if (size < count_) {
                if (ended) incomplete(data, size, taken);
                return ended;
            }
            taken = count_;
            break;
        case read_kind::until:
        case read_kind::line:
            return find_separator(reader, data, size, ended, taken);
    }
    value_ = bytes_of(data, taken);
    if (!value_) keep_error();
    return true;
}

bool stream_read::find_separator(const stream_object& reader, const char* data, std::size_t size,
                                 bool ended, std::size_t& taken) noexcept {
    const auto length = static_cast<std::size_t>(PyBytes_GET_SIZE(separator_.get()));
    const Py_ssize_t limit_or_error = reader_limit(reader);
    if (limit_or_error < 0) {
        keep_error();
        return true;
    }
    const auto limit = static_cast<std::size_t>(limit_or_error);
    const std::size_t at = find(data, size, scanned_, separator_.get());
    if (at != nowhere) {
        if (at > limit) {
            overrun("Separator is found, but chunk is longer than limit", data, size, at, taken);
            return true;
        }
        taken = at + length;
        value_ = bytes_of(data, taken);
        if (!value_) keep_error();
        return true;
    }
    scanned_ = size + 1 > length ? size + 1 - length : 0;
    if (scanned_ > limit) {
        overrun("Separator is not found, and chunk exceed the limit", data, size, scanned_, taken);
        return true;
    }
    if (ended) incomplete(data, size, taken);
    return ended;
}

// readuntil() leaves everything in place and says how far it looked; readline() drops the line, or
// all there is, and raises ValueError.
void stream_read::overrun(const char* message, const char* data, std::size_t size,
                          std::size_t consumed, std::size_t& taken) noexcept {
    const auto length = static_cast<std::size_t>(PyBytes_GET_SIZE(separator_.get()));
    if (kind_ == read_kind::line) {
        const bool found =
            consumed + length <= size &&
            std::memcmp(data + consumed, PyBytes_AS_STRING(separator_.get()), length) == 0;
        taken = found ? consumed + length : size;
        PyErr_SetString(PyExc_ValueError, message);
        keep_error();
        return;
    }
    error_ = ref::steal(PyObject_CallFunction(stream_name().limit_overrun_error, "sn", message,
                                              static_cast<Py_ssize_t>(consumed)));
    if (!error_) keep_error();
}

// The stream ended first: what there is goes into the exception, or is the last line.
void stream_read::incomplete(const char* data, std::size_t size, std::size_t& taken) noexcept {
    taken = size;
    ref partial = bytes_of(data, size);
    if (!partial) {
        keep_error();
        return;
    }
    if (kind_ == read_kind::line) {
        value_ = std::move(partial);
        return;
    }
    ref expected =
        kind_ == read_kind::exactly ? ref::steal(PyLong_FromSize_t(count_)) : ref::share(Py_None);
    if (expected) {
        error_ = ref::steal(PyObject_CallFunctionObjArgs(stream_name().incomplete_read_error,
                                                         partial.get(), expected.get(), nullptr));
    }
    if (!error_) keep_error();
}

}  // namespace ringloop::python
