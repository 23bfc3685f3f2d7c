// What a coroutine tells of itself, for ringloop.Awaitable: cr_await, cr_frame and their kin, by
// which asyncio.capture_call_graph(), inspect and repr(task) follow a task into native work. The
// frame is a Python frame without code to run, made when it is asked for: nothing is kept for it.
// Thread: the loop's, GIL held.
#include <Python.h>
#include <frameobject.h>

#include <cstring>

#include "ringloop/bridge/python/awaitable.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

constexpr const char* no_file = "<native>";

awaitable& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<awaitable*>(object);
}

const char* name_of(awaitable& self) noexcept {
    const char* const name = self.work != nullptr ? self.work->name() : "";
    return *name != '\0' ? name : "Awaitable";
}

}  // namespace

PyObject* awaitable_name(PyObject* object, void*) noexcept {
    const char* const name = name_of(self_of(object));
    const char* const dot = std::strrchr(name, '.');  // of a class's: "Client.get"
    return PyUnicode_FromString(dot != nullptr ? dot + 1 : name);
}
PyObject* awaitable_qualified_name(PyObject* object, void*) noexcept {
    return PyUnicode_FromString(name_of(self_of(object)));
}

PyObject* awaitable_code(PyObject* object, void*) noexcept {
    return reinterpret_cast<PyObject*>(PyCode_NewEmpty(no_file, name_of(self_of(object)), 0));
}

PyObject* awaitable_frame(PyObject* object, void*) noexcept {
    if (self_of(object).done()) Py_RETURN_NONE;
    const ref globals = ref::steal(PyDict_New());
    const ref code = ref::steal(awaitable_code(object, nullptr));
    if (!globals || !code) return nullptr;
    return reinterpret_cast<PyObject*>(PyFrame_New(
        PyThreadState_Get(), reinterpret_cast<PyCodeObject*>(code.get()), globals.get(), nullptr));
}

PyObject* awaitable_suspended(PyObject* object, void*) noexcept {
    return PyBool_FromLong(self_of(object).now == awaitable::state::pending);
}

// What inspect.getcoroutinestate() asks for, from CPython 3.15 on.
PyObject* awaitable_state(PyObject* object, void*) noexcept {
    const awaitable& self = self_of(object);
    return PyUnicode_FromString(self.now == awaitable::state::pending ? "CORO_SUSPENDED"
                                : self.now == awaitable::state::idle  ? "CORO_CREATED"
                                                                      : "CORO_CLOSED");
}

}  // namespace ringloop::bridge
