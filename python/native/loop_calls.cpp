// call_soon, call_later, call_at, call_soon_threadsafe, time: what Python programs call most.
//
// GIL held. call_soon_threadsafe may come from any thread; the others belong to the loop's (checked
// in debug mode).
#include "arguments.hpp"
#include "loop_object.hpp"
#include "native_task.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}

struct call_arguments {
    PyObject* leading[2];  // callback; or delay (when) and callback
    PyObject* const* values;
    Py_ssize_t count;
    PyObject* context = nullptr;
};

constexpr const char* soon_names[] = {"callback"};
constexpr const char* later_names[] = {"delay", "callback"};
constexpr const char* at_names[] = {"when", "callback"};

constexpr parameter_list taking(const char* function, const char* const* names,
                                Py_ssize_t leading) {
    return {function, names, leading, leading, true, true};
}

bool parse(const parameter_list& list, PyObject* const* arguments, Py_ssize_t count,
           PyObject* names, call_arguments& out) noexcept {
    if (names != nullptr || count < list.most) {
        if (!bind(list, arguments, count, names, out.leading, &out.context)) return false;
    } else {
        for (Py_ssize_t i = 0; i < list.most; ++i) out.leading[i] = arguments[i];
    }
    const Py_ssize_t placed = count < list.most ? count : list.most;
    out.values = arguments + placed;
    out.count = count - placed;
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
    if (!parse(taking("call_soon", soon_names, 1), arguments, count, names, a)) return nullptr;
    if (loop->closed)
        return loop_soon_when_closed(loop, a.leading[0], a.values, a.count, a.context);
    if (loop->debug && check_debug(loop, a.leading[0], "call_soon", true) < 0) return nullptr;
    if (a.count == 1 && is_native_task(a.values[0]) && !loop->debug) {
        PyObject* const argument = argument_of_native_task(a.leading[0], a.values[0]);
        a.values = &argument;
        return soon(loop, a.leading[0], a);
    }
    return soon(loop, a.leading[0], a);
}

PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    if (!parse(taking("call_soon_threadsafe", soon_names, 1), arguments, count, names, a))
        return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, a.leading[0], "call_soon_threadsafe", false) < 0)
        return nullptr;
    PyObject* handle = soon(loop, a.leading[0], a);
    if (handle == nullptr) return nullptr;
    reinterpret_cast<handle_object*>(handle)->is_threadsafe = handles_are_threadsafe;
    io_of(loop).wake();
    return handle;
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
    return out != -1.0 || PyErr_Occurred() == nullptr;
}

PyObject* call_at(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    double when = 0;
    if (!parse(taking("call_at", at_names, 2), arguments, count, names, a) ||
        !number(a.leading[0], "when", when))
        return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, a.leading[1], "call_at", true) < 0) return nullptr;
    return at(loop, when, a.leading[1], a);
}

PyObject* call_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* names) noexcept {
    loop_object* loop = cast(self);
    call_arguments a{};
    double delay = 0, now = 0;
    if (!parse(taking("call_later", later_names, 2), arguments, count, names, a) ||
        !number(a.leading[0], "delay", delay))
        return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->debug && check_debug(loop, a.leading[1], "call_later", true) < 0) return nullptr;
    if (!loop_now_seconds(loop, now)) return nullptr;
    return at(loop, now + delay, a.leading[1], a);
}

PyObject* loop_time(PyObject* self, PyObject*) noexcept {
    loop_object* loop = cast(self);
    if (!loop->state.native && !loop->state.clock) {  // closed (late clean-up code), or not begun
        const ref clock = ref::steal(PyImport_ImportModule("time"));
        return clock ? PyObject_CallMethod(clock.get(), "monotonic", nullptr) : nullptr;
    }
    double now = 0;
    return loop_clock_seconds(loop, now) ? PyFloat_FromDouble(now) : nullptr;
}

}  // namespace

void loop_look_at_time(loop_object* loop) noexcept {
    auto* self = reinterpret_cast<PyObject*>(loop);
    const ref used = ref::steal(PyObject_GetAttrString(self, "time"));
    PyErr_Clear();  // a time() that cannot be looked up raises where it is asked for
    loop->state.custom_time = !used || !PyCFunction_CheckExact(used.get()) ||
                              PyCFunction_GET_FUNCTION(used.get()) != loop_time ||
                              PyCFunction_GET_SELF(used.get()) != self;
}

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
     "call_soon($self, callback, *args, context=None)\n--\n\n"
     "Calls callback(*args) in the next turn, in order of registration. Returns a Handle."},
    {"call_soon_threadsafe", bridge::method(call_soon_threadsafe), METH_FASTCALL | METH_KEYWORDS,
     "call_soon_threadsafe($self, callback, *args, context=None)\n--\n\n"
     "call_soon() from any thread."},
    {"call_later", bridge::method(call_later), METH_FASTCALL | METH_KEYWORDS,
     "call_later($self, delay, callback, *args, context=None)\n--\n\n"
     "Calls callback(*args) after `delay` seconds, never early. Returns a TimerHandle."},
    {"call_at", bridge::method(call_at), METH_FASTCALL | METH_KEYWORDS,
     "call_at($self, when, callback, *args, context=None)\n--\n\n"
     "Calls callback(*args) when loop.time() has reached `when`. Returns a TimerHandle."},
    {"time", loop_time, METH_NOARGS,
     "time($self)\n--\n\nSeconds on the loop's monotonic clock, as time.monotonic()."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
