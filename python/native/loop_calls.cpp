// call_soon, call_later, call_at, call_soon_threadsafe, time: what Python programs call most.
//
// GIL held. call_soon_threadsafe may come from any thread; the others belong to the loop's (checked
// in debug mode).
#include <cmath>

#include "loop_object.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}

struct call_arguments {
    PyObject* const* values;
    Py_ssize_t count;
    PyObject* context = nullptr;
};

// The only keyword is context (possibly a string that is not interned).
bool parse(const char* name, PyObject* const* arguments, Py_ssize_t count, PyObject* names,
           Py_ssize_t leading, const char* first, call_arguments& out) noexcept {
    if (names != nullptr) {
        const Py_ssize_t keywords = PyTuple_GET_SIZE(names);
        for (Py_ssize_t i = 0; i < keywords; ++i) {
            PyObject* keyword = PyTuple_GET_ITEM(names, i);
            if (!PyUnicode_CompareWithASCIIString(keyword, "context")) {
                out.context = arguments[count + i];
                continue;
            }
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", name,
                         keyword);
            return false;
        }
    }
    if (count < leading) {
        PyErr_Format(PyExc_TypeError, "%s() missing a required positional argument: %s", name,
                     first);
        return false;
    }
    out.values = arguments + leading;
    out.count = count - leading;
    return true;
}

PyObject* soon(loop_object* loop, PyObject* callback, const call_arguments& a) noexcept {
    handle_object* handle = make_handle(loop, false, callback, a.values, a.count, a.context);
    if (handle == nullptr) return nullptr;
    Py_INCREF(handle);
    if (loop->state.ready.push(handle)) return reinterpret_cast<PyObject*>(handle);
    Py_DECREF(handle);
    Py_DECREF(handle);
    return PyErr_NoMemory();
}

PyObject* call_soon(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    if (!parse("call_soon", arguments, count, names, 1, "'callback'", a)) return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, arguments[0], "call_soon", true) < 0) return nullptr;
    return soon(loop, arguments[0], a);
}

PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    if (!parse("call_soon_threadsafe", arguments, count, names, 1, "'callback'", a)) return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, arguments[0], "call_soon_threadsafe", false) < 0)
        return nullptr;
    PyObject* handle = soon(loop, arguments[0], a);
    if (handle != nullptr) io_of(loop).wake();
    return handle;
}

// The first nanosecond at which loop.time() >= when.
std::int64_t deadline_of(double when) noexcept {
    constexpr double most = 9.2e18;
    const double ns = when * 1e9;
    if (!(ns < most)) return no_deadline;
    if (ns < -most) return -static_cast<std::int64_t>(most);
    auto deadline_ns = static_cast<std::int64_t>(std::ceil(ns));
    while (static_cast<double>(deadline_ns) / 1e9 < when) ++deadline_ns;
    return deadline_ns;
}

PyObject* at(loop_object* loop, double when, PyObject* callback, const call_arguments& a) noexcept {
    handle_object* handle = make_handle(loop, true, callback, a.values, a.count, a.context);
    if (handle == nullptr) return nullptr;
    handle->when = when;
    handle->deadline_ns = deadline_of(when);
    Py_INCREF(handle);
    if (loop->state.timers.push(handle)) return reinterpret_cast<PyObject*>(handle);
    Py_DECREF(handle);
    Py_DECREF(handle);
    return PyErr_NoMemory();
}

bool number(PyObject* object, const char* what, double& out) noexcept {
    if (object == Py_None) {
        PyErr_Format(PyExc_TypeError, "%s must not be None", what);
        return false;
    }
    out = PyFloat_AsDouble(object);
    if (out == -1.0 && PyErr_Occurred()) return false;
    if (std::isnan(out)) {
        PyErr_Format(PyExc_ValueError, "%s must be a number of seconds, not NaN", what);
        return false;
    }
    return true;
}

// loop.time(), by way of an override in a subclass if there is one.
bool now_seconds(loop_object* loop, double& out) noexcept {
    if (!loop->state.custom_time) {
        out = static_cast<double>(native_of(loop).now_ns()) / 1e9;
        return true;
    }
    ref value = ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(loop), "time", nullptr));
    return value && number(value.get(), "time()", out);
}

PyObject* call_at(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    double when = 0;
    if (!parse("call_at", arguments, count, names, 2, "'when' or 'callback'", a) ||
        !number(arguments[0], "when", when))
        return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, arguments[1], "call_at", true) < 0) return nullptr;
    return at(loop, when, arguments[1], a);
}

PyObject* call_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    double delay = 0, now = 0;
    if (!parse("call_later", arguments, count, names, 2, "'delay' or 'callback'", a) ||
        !number(arguments[0], "delay", delay))
        return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, arguments[1], "call_later", true) < 0) return nullptr;
    if (!now_seconds(loop, now)) return nullptr;
    return at(loop, now + delay, arguments[1], a);
}

PyObject* loop_time(PyObject* self, PyObject*) noexcept {
    loop_object* loop = cast(self);
    if (!loop->state.native) {  // closed: the clock goes on, late clean-up code may ask
        const ref clock = ref::steal(PyImport_ImportModule("time"));
        return clock ? PyObject_CallMethod(clock.get(), "monotonic", nullptr) : nullptr;
    }
    return PyFloat_FromDouble(static_cast<double>(native_of(loop).now_ns()) / 1e9);
}

}  // namespace

int loop_call_soon(loop_object* loop, PyObject* callback, PyObject* argument,
                   PyObject* context) noexcept {
    if (loop->closed) return raise_closed(loop);
    handle_object* handle =
        make_handle(loop, false, callback, &argument, argument != nullptr ? 1 : 0, context);
    if (handle == nullptr) return -1;
    if (loop->state.ready.push(handle)) return 0;
    Py_DECREF(handle);
    PyErr_NoMemory();
    return -1;
}

void loop_forget_timer(loop_object* loop, handle_object* handle) noexcept {
    Py_DECREF(loop->state.timers.remove(handle->heap_index));
}

PyMethodDef loop_call_methods[] = {
    {"call_soon", bridge::method(call_soon), METH_FASTCALL | METH_KEYWORDS,
     "call_soon($self, callback, /, *args, context=None)\n--\n\n"
     "Calls callback(*args) in the next turn, in order of registration. Returns a Handle."},
    {"call_soon_threadsafe", bridge::method(call_soon_threadsafe), METH_FASTCALL | METH_KEYWORDS,
     "call_soon_threadsafe($self, callback, /, *args, context=None)\n--\n\n"
     "call_soon() from any thread."},
    {"call_later", bridge::method(call_later), METH_FASTCALL | METH_KEYWORDS,
     "call_later($self, delay, callback, /, *args, context=None)\n--\n\n"
     "Calls callback(*args) after `delay` seconds, never early. Returns a TimerHandle."},
    {"call_at", bridge::method(call_at), METH_FASTCALL | METH_KEYWORDS,
     "call_at($self, when, callback, /, *args, context=None)\n--\n\n"
     "Calls callback(*args) when loop.time() has reached `when`. Returns a TimerHandle."},
    {"time", loop_time, METH_NOARGS,
     "time($self, /)\n--\n\nSeconds on the loop's monotonic clock, as time.monotonic()."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
