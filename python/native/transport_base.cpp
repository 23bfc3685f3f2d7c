// What both transports do alike. Contract in transport_base.hpp.
#include "transport_base.hpp"

#include "handled_scope.hpp"
#include "transport.hpp"
#include "transport_names.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

constexpr std::uint32_t warn_after_writes = 5;  // asyncio's LOG_THRESHOLD_FOR_CONNLOST_WRITES

}  // namespace

void fill_base_slots(PyObject* self, loop_object* loop, PyObject* extra) noexcept {
    slot(self, slots.loop) = Py_NewRef(reinterpret_cast<PyObject*>(loop));
    slot(self, slots.extra) = Py_XNewRef(extra);
    slot(self, slots.protocol_paused) = Py_NewRef(Py_False);
    slot(self, slots.high_water) = Py_NewRef(names().default_high_water);
    slot(self, slots.low_water) = Py_NewRef(names().default_low_water);
}

int visit_base_slots(PyObject* self, visitproc visit, void* arg) noexcept {
    for (Py_ssize_t offset :
         {slots.extra, slots.loop, slots.protocol_paused, slots.high_water, slots.low_water}) {
        Py_VISIT(slot(self, offset));
    }
    return 0;
}

void clear_base_slots(PyObject* self) noexcept {
    for (Py_ssize_t offset :
         {slots.extra, slots.loop, slots.protocol_paused, slots.high_water, slots.low_water}) {
        Py_CLEAR(slot(self, offset));
    }
}

int schedule_start(loop_object* loop, PyObject* self, PyObject* protocol, PyObject* context,
                   PyObject* waiter) noexcept {
    ref made = ref::steal(PyObject_GetAttr(protocol, names().connection_made));
    if (!made || loop_call_soon(loop, made.get(), self, context) < 0) return -1;
    ref start = ref::steal(PyObject_GetAttr(self, names()._start_reading));
    if (!start) return -1;
    return loop_call_soon(loop, start.get(), waiter, context);
}

PyObject* tell_waiter(PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count == 0 || arguments[0] == Py_None) Py_RETURN_NONE;
    return PyObject_CallFunctionObjArgs(names().set_result_unless_cancelled, arguments[0], Py_None,
                                        nullptr);
}

int report_failure(loop_object* loop, const char* message, PyObject* exception, PyObject* transport,
                   PyObject* protocol) noexcept {
    ref context = ref::steal(Py_BuildValue("{sssOsOsO}", "message", message, "exception", exception,
                                           "transport", transport, "protocol",
                                           protocol != nullptr ? protocol : Py_None));
    if (!context) return -1;
    const handled_scope handled(exception);
    ref done = ref::steal(PyObject_CallMethodOneArg(reinterpret_cast<PyObject*>(loop),
                                                    names().call_exception_handler, context.get()));
    return done ? 0 : -1;
}

void warn_unclosed(PyObject* transport) noexcept {
    if (PyErr_ResourceWarning(transport, 1, "unclosed transport %R", transport) == 0) return;
    // Late in the interpreter's life the warning itself fails (ImportError): nobody's fault.
    if (PyErr_ExceptionMatches(PyExc_Warning) != 0) {
        PyErr_WriteUnraisable(transport);
    } else {
        PyErr_Clear();
    }
}

std::size_t high_water(PyObject* self) noexcept {
    PyObject* mark = slot(self, slots.high_water);
    if (mark == nullptr || mark == names().default_high_water) return default_high_water;
    const std::size_t value = PyLong_Check(mark) ? PyLong_AsSize_t(mark) : SIZE_MAX;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();  // larger than any queue
    return value;
}

bool protocol_paused(PyObject* self) noexcept {
    return slot(self, slots.protocol_paused) == Py_True;
}

int maybe_pause(PyObject* self, std::size_t queued, PyObject* context) noexcept {
    if (queued <= high_water(self) || protocol_paused(self)) return 0;
    context_scope scope(context);
    ref done = ref::steal(PyObject_CallMethodNoArgs(self, names()._maybe_pause_protocol));
    return done ? 0 : -1;
}

void write_to_lost(std::uint32_t& connection_lost_count) noexcept {
    if (connection_lost_count >= warn_after_writes)
        transport_log("warning", "socket.send() raised exception.", nullptr);
    ++connection_lost_count;
}

const char* take_fatal_error(PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count < 1 || count > 2 || !PyExceptionInstance_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "_fatal_error() takes an exception and a message");
        return nullptr;
    }
    const char* message = "Fatal error on transport";
    if (count == 2 && (message = PyUnicode_AsUTF8(arguments[1])) == nullptr) return nullptr;
    bridge::restore_exception(ref::share(arguments[0]));
    return message;
}

}  // namespace ringloop::python
