// The Python faces of a shared handle: HandleCore, which ringloop.SharedHandle extends, and
// HandleProducer, the producer's side for Python programs.
//
// Thread: HandleCore as shared_handle.hpp says; a HandleProducer any, GIL held.
#include <Python.h>

#include <cerrno>
#include <climits>
#include <new>

#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/shared_handles.hpp"
#include "ringloop/handle.h"
#include "shared_handle.hpp"

namespace ringloop::bridge {
namespace {

// ---- HandleCore

struct core_object {
    PyObject ob_base;
    shared_handle* handle;  // null before _open()
};

PyTypeObject* producer_type = nullptr;

shared_handle* handle_of(PyObject* object) noexcept {
    shared_handle* handle = reinterpret_cast<core_object*>(object)->handle;
    if (handle == nullptr)
        PyErr_SetString(PyExc_RuntimeError, "SharedHandle.__init__() was not called");
    return handle;
}

bool check_shape(unsigned long lanes, unsigned long slots) noexcept {
    if (lanes < 1 || lanes > RINGLOOP_HANDLE_LANES_MAX) {
        PyErr_Format(PyExc_ValueError, "lanes must be 1 to %u, not %ld", RINGLOOP_HANDLE_LANES_MAX,
                     static_cast<long>(lanes));
        return false;
    }
    if (slots < 1 || slots > RINGLOOP_HANDLE_SLOTS_MAX || (slots & (slots - 1)) != 0) {
        PyErr_Format(PyExc_ValueError, "slots must be a power of two up to %u, not %ld",
                     RINGLOOP_HANDLE_SLOTS_MAX, static_cast<long>(slots));
        return false;
    }
    return true;
}

PyObject* memory_size(PyObject*, PyObject* args) {
    long lanes = 0;
    long slots = 0;
    if (PyArg_ParseTuple(args, "ll", &lanes, &slots) == 0 ||
        !check_shape(static_cast<unsigned long>(lanes), static_cast<unsigned long>(slots)))
        return nullptr;
    return PyLong_FromUnsignedLongLong(ringloop_handle_memory_size(
        static_cast<std::uint32_t>(lanes), static_cast<std::uint32_t>(slots)));
}

PyObject* core_open(PyObject* object, PyObject* args) {
    int memory = -1;
    int wake = -1;
    long lanes = 0;
    long slots = 0;
    if (PyArg_ParseTuple(args, "iill", &memory, &wake, &lanes, &slots) == 0 ||
        !check_shape(static_cast<unsigned long>(lanes), static_cast<unsigned long>(slots)))
        return nullptr;
    auto* self = reinterpret_cast<core_object*>(object);
    if (self->handle != nullptr)
        return PyErr_Format(PyExc_RuntimeError, "SharedHandle.__init__() was called before");
    self->handle = shared_handle::make(memory, wake, static_cast<unsigned>(lanes),
                                       static_cast<unsigned>(slots));
    if (self->handle == nullptr) return nullptr;
    Py_RETURN_NONE;
}

// False with an exception set.
bool parse_lane(const shared_handle& handle, PyObject* number, unsigned& lane) noexcept {
    const long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred() != nullptr) return false;
    if (value < 0 || value >= static_cast<long>(handle.view().lanes)) {
        PyErr_Format(PyExc_ValueError, "there is no lane %ld: the handle has %u, from 0 on", value,
                     handle.view().lanes);
        return false;
    }
    lane = static_cast<unsigned>(value);
    return true;
}

PyObject* core_submit(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    shared_handle* handle = handle_of(object);
    if (handle == nullptr) return nullptr;
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (count + named > 1 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "lane") != 0))
        return PyErr_Format(PyExc_TypeError, "submit() takes at most one argument, lane");
    unsigned lane = 0;
    if (count + named == 1 && !parse_lane(*handle, args[0], lane)) return nullptr;
    return handle->submit(lane);
}

PyObject* core_watch(PyObject* object, PyObject* args) {
    shared_handle* handle = handle_of(object);
    PyObject* number = nullptr;
    long pid = 0;
    unsigned lane = 0;
    if (handle == nullptr || PyArg_ParseTuple(args, "Ol:watch", &number, &pid) == 0 ||
        !parse_lane(*handle, number, lane))
        return nullptr;
    if (pid <= 0 || pid > INT_MAX)
        return PyErr_Format(PyExc_ValueError, "%ld is no process's number", pid);
    if (handle->watch(lane, pid) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* core_close(PyObject* object, PyObject*) {
    if (shared_handle* handle = reinterpret_cast<core_object*>(object)->handle; handle != nullptr)
        handle->close();
    Py_RETURN_NONE;
}

PyObject* core_counters(PyObject* object, PyObject*) {
    shared_handle* handle = handle_of(object);
    if (handle == nullptr) return nullptr;
    const handle_consumer::counters& all = handle->consumer().counted();
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:I}", "completions", all.completions, "abandoned",
                         all.abandoned, "strays", all.strays, "sleeps", all.sleeps, "wakes",
                         handle->wakes(), "reserved", handle->consumer().reserved());
}

// While the interpreter ends its holder's threads may still be completing: the memory stays, then.
void release_capsule(PyObject* capsule) {
#if PY_VERSION_HEX >= 0x030D0000
    if (Py_IsFinalizing() != 0) return;
#else
    if (_Py_IsFinalizing() != 0) return;
#endif
    static_cast<shared_handle*>(PyCapsule_GetContext(capsule))->release();
}

PyObject* core_capsule(PyObject* object, void*) {
    shared_handle* handle = handle_of(object);
    if (handle == nullptr) return nullptr;
    auto* view = const_cast<ringloop_handle*>(&handle->view());
    ref made = ref::steal(PyCapsule_New(view, RINGLOOP_HANDLE_CAPSULE, nullptr));
    if (!made || PyCapsule_SetContext(made.get(), handle) != 0 ||
        PyCapsule_SetDestructor(made.get(), &release_capsule) != 0)
        return nullptr;
    handle->retain();
    return made.release();
}

PyObject* core_closed(PyObject* object, void*) {
    const shared_handle* handle = reinterpret_cast<core_object*>(object)->handle;
    return PyBool_FromLong(handle == nullptr || handle->closed());
}

PyObject* core_lanes(PyObject* object, void*) {
    shared_handle* handle = handle_of(object);
    return handle != nullptr ? PyLong_FromUnsignedLong(handle->view().lanes) : nullptr;
}

PyObject* core_slots(PyObject* object, void*) {
    shared_handle* handle = handle_of(object);
    return handle != nullptr ? PyLong_FromUnsignedLong(handle->view().slots) : nullptr;
}

void core_deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    if (shared_handle* handle = reinterpret_cast<core_object*>(object)->handle; handle != nullptr) {
        handle->close();
        handle->release();
    }
    type->tp_free(object);
    Py_DECREF(type);
}

PyMethodDef core_methods[] = {
    {"_open", core_open, METH_VARARGS, nullptr},
    {"submit", method(core_submit), METH_FASTCALL | METH_KEYWORDS,
     "submit($self, lane=0)\n--\n\n"
     "Reserves a slot of the lane: (token, awaitable). Whoever completes the token ends the "
     "await."},
    {"watch", core_watch, METH_VARARGS,
     "watch($self, lane, pid, /)\n--\n\n"
     "Ends the lane's awaits when that process ends, also if it never attaches."},
    {"close", core_close, METH_NOARGS,
     "close($self)\n--\n\nEnds its awaits, and refuses producers."},
    {"counters", core_counters, METH_NOARGS,
     "counters($self)\n--\n\nWhat has come, and how often the loop was woken for it."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef core_attributes[] = {
    {"capsule", core_capsule, nullptr, "What <ringloop/handle.h> takes in this process.", nullptr},
    {"closed", core_closed, nullptr, "Whether it, or its loop, was closed.", nullptr},
    {"lanes", core_lanes, nullptr, "How many lanes it has.", nullptr},
    {"slots", core_slots, nullptr, "How many tokens of a lane may be open at once.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot core_slots_table[] = {
    {Py_tp_doc, const_cast<char*>("The native half of ringloop.SharedHandle.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(core_deallocate)},
    {Py_tp_methods, core_methods},
    {Py_tp_getset, core_attributes},
    {0, nullptr}};
PyType_Spec core_spec = {"ringloop._native.HandleCore", sizeof(core_object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, core_slots_table};

// ---- HandleProducer

struct producer_object {
    PyObject ob_base;
    ringloop_handle handle;
    int descriptors[3];
    bool open;
};

producer_object& producer_of(PyObject* object) noexcept {
    return *reinterpret_cast<producer_object*>(object);
}

const char* attach_text(int error) noexcept {
    switch (error) {
        case EPERM:
            return "memory_fd is not sealed memory of a SharedHandle: pass what share() returned";
        case EPROTO:
            return "the memory is no SharedHandle's";
        case EPROTONOSUPPORT:
            return "the SharedHandle is of another version of ringloop: use the same in both "
                   "processes";
        case EINVAL:
            return "the SharedHandle has no such lane";
        case EBUSY:
            return "another process has that lane (or its end has yet to be noticed): attach to "
                   "one "
                   "of your own";
        case EPIPE:
            return "the SharedHandle was closed, or its process has ended";
        default:
            return "cannot attach to the SharedHandle";
    }
}

// Takes over the three descriptors, also on failure.
PyObject* attach(PyObject*, PyObject* args) {
    int fds[3] = {-1, -1, -1};
    long lane = 0;
    const bool parsed = PyArg_ParseTuple(args, "iiil", &fds[0], &fds[1], &fds[2], &lane) != 0;
    auto* made = parsed ? PyObject_New(producer_object, producer_type) : nullptr;
    if (made == nullptr) {
        for (const int fd : fds) shared_handle::close_descriptor(fd);
        return nullptr;
    }
    made->open = false;
    std::copy(std::begin(fds), std::end(fds), made->descriptors);
    ref owner = ref::steal(&made->ob_base);
    const int error = lane < 0 || lane > INT_MAX
                          ? -EINVAL
                          : ringloop_handle_attach(&made->handle, fds[0], fds[1], fds[2],
                                                   static_cast<unsigned>(lane));
    if (error < 0) {
        raise_os_error(-error, "%s (lane %ld)", attach_text(-error), lane);
        return nullptr;
    }
    made->open = true;
    return owner.release();
}

void detach(producer_object& self) noexcept {
    if (!self.open) return;
    self.open = false;
    ringloop_handle_detach(&self.handle);
}

void producer_deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    producer_object& self = producer_of(object);
    detach(self);
    for (const int fd : self.descriptors) shared_handle::close_descriptor(fd);
    PyObject_Free(object);
    Py_DECREF(type);
}

bool check_open(const producer_object& self) noexcept {
    if (!self.open) PyErr_SetString(PyExc_ValueError, "this HandleProducer is closed");
    return self.open;
}

bool parse_token(PyObject* number, ringloop_token& token) noexcept {
    token = PyLong_AsUnsignedLongLong(number);
    return token != static_cast<ringloop_token>(-1) || PyErr_Occurred() == nullptr;
}

PyObject* answer(int result, ringloop_token token) noexcept {
    switch (-result) {
        case 0:
            Py_RETURN_NONE;
        case EPIPE:
            raise_os_error(EPIPE,
                           "nobody awaits any more: the SharedHandle was closed, or its "
                           "process has ended");
            return nullptr;
        case EINVAL:
            return PyErr_Format(PyExc_ValueError, "%llu is no token of this producer's lane",
                                static_cast<unsigned long long>(token));
        case EMSGSIZE:
            return PyErr_Format(PyExc_ValueError, "a completion carries at most %u bytes",
                                RINGLOOP_HANDLE_BYTES_MAX);
        case ENOBUFS:
            raise_os_error(ENOBUFS,
                           "there were more completions than submits: complete each token "
                           "once");
            return nullptr;
        default:
            raise_errno(result);
            return nullptr;
    }
}

PyObject* put_value(ringloop_handle& handle, ringloop_token token, PyObject* value) noexcept {
    if (value == nullptr || value == Py_None)
        return answer(ringloop_handle_complete(&handle, token), token);
    if (PyLong_Check(value)) {
        const long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
        return answer(ringloop_handle_complete_int(&handle, token, number), token);
    }
    if (PyFloat_Check(value)) {
        const double number = PyFloat_AS_DOUBLE(value);
        return answer(ringloop_handle_complete_double(&handle, token, number), token);
    }
    if (PyBytes_Check(value)) {
        const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(value));
        const char* bytes = PyBytes_AS_STRING(value);
        return answer(ringloop_handle_complete_bytes(&handle, token, bytes, size), token);
    }
    return PyErr_Format(PyExc_TypeError,
                        "a completion carries None, an int, a float or bytes, not %s",
                        Py_TYPE(value)->tp_name);
}

PyObject* producer_complete(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    producer_object& self = producer_of(object);
    ringloop_token token = 0;
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "complete() takes a token and a value");
    if (!check_open(self) || !parse_token(args[0], token)) return nullptr;
    return put_value(self.handle, token, count > 1 ? args[1] : nullptr);
}

PyObject* producer_fail(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    producer_object& self = producer_of(object);
    ringloop_token token = 0;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "fail() takes a token and an errno");
    if (!check_open(self) || !parse_token(args[0], token)) return nullptr;
    const long error = PyLong_AsLong(args[1]);
    if (error == -1 && PyErr_Occurred() != nullptr) return nullptr;
    if (error <= 0 || error > INT_MAX)
        return PyErr_Format(PyExc_ValueError, "%ld is no errno", error);
    return answer(ringloop_handle_fail(&self.handle, token, static_cast<int>(error)), token);
}

PyObject* producer_wanted(PyObject* object, PyObject* number) {
    producer_object& self = producer_of(object);
    ringloop_token token = 0;
    if (!check_open(self) || !parse_token(number, token)) return nullptr;
    return PyBool_FromLong(ringloop_handle_wanted(&self.handle, token));
}

PyObject* producer_alive(PyObject* object, PyObject*) {
    producer_object& self = producer_of(object);
    return check_open(self) ? PyBool_FromLong(ringloop_handle_alive(&self.handle)) : nullptr;
}

PyObject* producer_close(PyObject* object, PyObject*) {
    detach(producer_of(object));
    Py_RETURN_NONE;
}

PyObject* producer_enter(PyObject* object, PyObject*) {
    return check_open(producer_of(object)) ? Py_NewRef(object) : nullptr;
}

PyObject* producer_exit(PyObject* object, PyObject* const*, Py_ssize_t) {
    return producer_close(object, nullptr);
}

PyMethodDef producer_methods[] = {
    {"complete", method(producer_complete), METH_FASTCALL,
     "complete($self, token, value=None, /)\n--\n\n"
     "Ends the token's await with None, an int of 64 bits, a float or up to 40 bytes."},
    {"fail", method(producer_fail), METH_FASTCALL,
     "fail($self, token, errno, /)\n--\n\nThe token's await raises OSError(errno)."},
    {"wanted", producer_wanted, METH_O,
     "wanted($self, token, /)\n--\n\n"
     "False after a cancel: end early, and complete it all the same."},
    {"alive", producer_alive, METH_NOARGS,
     "alive($self)\n--\n\nFalse once the handle, its loop or its process has ended."},
    {"close", producer_close, METH_NOARGS,
     "close($self)\n--\n\n"
     "Gives the lane back; awaits that it did not complete raise ConnectionResetError."},
    {"__enter__", producer_enter, METH_NOARGS, nullptr},
    {"__exit__", method(producer_exit), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot producer_slots[] = {
    {Py_tp_doc, const_cast<char*>("Completes awaits of another process's SharedHandle; from "
                                  "SharedHandle.attach(). Any thread.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(producer_deallocate)},
    {Py_tp_methods, producer_methods},
    {0, nullptr}};
PyType_Spec producer_spec = {
    "ringloop.HandleProducer", sizeof(producer_object), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    producer_slots};

PyMethodDef functions[] = {{"_handle_memory_size", memory_size, METH_VARARGS, nullptr},
                           {"_handle_attach", attach, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_handle_types(PyObject* module) noexcept {
    const ref core = ref::steal(PyType_FromModuleAndSpec(module, &core_spec, nullptr));
    if (!core || PyModule_AddObjectRef(module, "HandleCore", core.get()) < 0) return -1;
    PyObject* producer = PyType_FromModuleAndSpec(module, &producer_spec, nullptr);
    if (producer == nullptr) return -1;
    producer_type = reinterpret_cast<PyTypeObject*>(producer);
    if (PyModule_AddObjectRef(module, "HandleProducer", producer) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::bridge
