// sendfile()'s hold on a transport's write side. Contract in transport.hpp.
//
// While a file is on its way write() is refused, close() and write_eof() wait for its end, and the
// end of the connection wakes whoever sends it (python/ringloop/_sendfile.py). Thread: the loop's,
// GIL held.
#include "transport.hpp"
#include "transport_names.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

// A new waiter in t.file_waiter: done at once if the connection is lost already.
bool make_waiter(transport_state& t) noexcept {
    loop_object* loop = loop_of(t);
    if (loop == nullptr) {
        PyErr_SetString(PyExc_ConnectionError, "Connection is closed by peer");
        return false;
    }
    PyObject* waiter =
        PyObject_CallMethod(reinterpret_cast<PyObject*>(loop), "create_future", nullptr);
    if (waiter == nullptr) return false;
    ref previous = ref::steal(std::exchange(t.file_waiter, waiter));
    return t.connection_lost_count == 0 || transport_finish_file_waiter(t, true) == 0;
}

}  // namespace

int transport_finish_file_waiter(transport_state& t, bool lost) noexcept {
    ref waiter = ref::share(t.file_waiter);
    ref done = ref::steal(PyObject_CallMethod(waiter.get(), "done", nullptr));
    if (!done || done.get() == Py_True) return done ? 0 : -1;
    if (lost) {
        ref error = ref::steal(
            PyObject_CallFunction(PyExc_ConnectionError, "s", "Connection is closed by peer"));
        if (!error) return -1;
        done = ref::steal(PyObject_CallMethod(waiter.get(), "set_exception", "O", error.get()));
    } else {
        done = ref::steal(PyObject_CallMethodOneArg(waiter.get(), names().set_result, Py_None));
    }
    return done ? 0 : -1;
}

PyObject* transport_hold_for_file(PyObject* self, PyObject*) noexcept {
    transport_state& t = state_of(self);
    if (t.file_waiter != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "Empty waiter is already set");
        return nullptr;
    }
    if (!make_waiter(t)) return nullptr;
    if (t.out == nullptr && transport_finish_file_waiter(t, false) < 0) return nullptr;
    return Py_NewRef(t.file_waiter);
}

PyObject* transport_renew_file_waiter(PyObject* self, PyObject*) noexcept {
    transport_state& t = state_of(self);
    if (t.file_waiter == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "no file is being sent");
        return nullptr;
    }
    return make_waiter(t) ? Py_NewRef(t.file_waiter) : nullptr;
}

PyObject* transport_end_file(PyObject* self, PyObject*) noexcept {
    transport_state& t = state_of(self);
    if (t.file_waiter == nullptr) Py_RETURN_NONE;
    Py_CLEAR(t.file_waiter);
    if (t.out == nullptr && transport_queue_ended(t) < 0) return nullptr;
    Py_RETURN_NONE;
}

}  // namespace ringloop::python
