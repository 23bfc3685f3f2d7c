// The lists of hooks and their registration. Contract in step_hooks.hpp.
#include "step_hooks.hpp"

#include <new>
#include <utility>
#include <vector>

#include "handled_scope.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/hooks.h"

namespace ringloop::python {

using bridge::ref;

hook_kind on_ready{"on_ready"};
hook_kind before_run{"before_run"};
hook_kind after_run{"after_run"};
hook_kind on_slow{"on_slow"};
bool step_hooks_set = false;

namespace {

PyObject* report = nullptr;  // report(kind, function, error, task)

struct hook {
    ringloop_hook native = nullptr;  // null: `object` is called
    void* context = nullptr;
    ref object;  // what was given: a callable, a capsule, or (address, ctypes function)
};

// 0, or -1 with what is no Exception set.
int report_failure(const char* kind, PyObject* function, PyObject* task) noexcept {
    ref error = bridge::take_exception();
    if (!PyErr_GivenExceptionMatches(error.get(), PyExc_Exception)) {
        bridge::restore_exception(std::move(error));
        return -1;
    }
    const handled_scope handled(error.get());
    const ref said =
        ref::steal(PyObject_CallFunction(report, "sOOO", kind, function, error.get(), task));
    return said ? 0 : -1;
}

bool is_pair(PyObject* given) noexcept {
    return PyTuple_CheckExact(given) && PyTuple_GET_SIZE(given) == 2;
}

// False with an exception set.
bool read_hook(PyObject* given, hook& into) noexcept {
    into.object = ref::share(given);
    void* address = nullptr;
    if (PyCapsule_CheckExact(given)) {
        address = PyCapsule_GetPointer(given, RINGLOOP_HOOK_CAPSULE);
        into.context = PyCapsule_GetContext(given);
    } else if (is_pair(given)) {
        address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(given, 0));
    } else {
        return true;
    }
    into.native = reinterpret_cast<ringloop_hook>(address);
    return address != nullptr;
}

// What is told of a hook: the ctypes function of a pair.
PyObject* shown(const hook& each) noexcept {
    return is_pair(each.object.get()) ? PyTuple_GET_ITEM(each.object.get(), 1) : each.object.get();
}

}  // namespace

// Shared by the registration and the calls under way: a hook may remove hooks.
class hook_list {
  public:
    std::vector<hook> hooks;
    void retain() noexcept { ++users_; }
    void release() noexcept {
        if (--users_ == 0) delete this;
    }

  private:
    ~hook_list() = default;
    long users_ = 1;
};

namespace {

int call_python(PyObject* function, PyObject* subject, bool timed, double seconds) noexcept {
    const ref took = timed ? ref::steal(PyFloat_FromDouble(seconds)) : ref();
    if (timed && !took) return -1;
    PyObject* arguments[] = {nullptr, subject, took.get()};
    const std::size_t count = timed ? 2 : 1;
    const ref answer = ref::steal(PyObject_Vectorcall(
        function, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    return answer ? 0 : -1;
}

int call_one(const hook& each, PyObject* subject, bool timed, double seconds) noexcept {
    if (each.native == nullptr) return call_python(each.object.get(), subject, timed, seconds);
    each.native(subject, seconds, each.context);
    return PyErr_Occurred() == nullptr ? 0 : -1;
}

// A new list, null for an empty tuple; false with an exception set.
bool read_list(PyObject* given, hook_list*& into) noexcept {
    into = nullptr;
    const Py_ssize_t count = PyTuple_GET_SIZE(given);
    if (count == 0) return true;
    hook_list* made = nullptr;
    try {
        made = new hook_list;
        made->hooks.resize(static_cast<std::size_t>(count));
    } catch (const std::bad_alloc&) {
        if (made != nullptr) made->release();
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (read_hook(PyTuple_GET_ITEM(given, i), made->hooks[static_cast<std::size_t>(i)]))
            continue;
        made->release();
        return false;
    }
    into = made;
    return true;
}

PyObject* set_step_hooks(PyObject*, PyObject* arguments) {
    constexpr std::size_t count = 4;
    hook_kind* const kinds[count] = {&on_ready, &before_run, &after_run, &on_slow};
    PyObject* given[count];
    PyObject* reporter = nullptr;
    if (PyArg_ParseTuple(arguments, "O!O!O!O!O", &PyTuple_Type, &given[0], &PyTuple_Type, &given[1],
                         &PyTuple_Type, &given[2], &PyTuple_Type, &given[3], &reporter) == 0)
        return nullptr;
    hook_list* lists[count] = {};
    bool good = true, any = false;
    for (std::size_t i = 0; good && i < count; ++i) {
        good = read_list(given[i], lists[i]);
        any = any || lists[i] != nullptr;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (good) std::swap(kinds[i]->list, lists[i]);
        if (lists[i] != nullptr) lists[i]->release();
    }
    if (!good) return nullptr;
    const ref old = ref::steal(std::exchange(report, Py_NewRef(reporter)));
    step_hooks_set = any;
    Py_RETURN_NONE;
}

// check_hook_capsule(kind, object)
PyObject* check_hook_capsule(PyObject*, PyObject* arguments) {
    PyObject *kind = nullptr, *given = nullptr;
    if (PyArg_ParseTuple(arguments, "UO", &kind, &given) == 0) return nullptr;
    if (!PyCapsule_CheckExact(given)) Py_RETURN_FALSE;
    if (PyCapsule_IsValid(given, RINGLOOP_HOOK_CAPSULE) != 0) Py_RETURN_TRUE;
    const char* name = PyCapsule_GetName(given);
    PyErr_Clear();
    return PyErr_Format(PyExc_TypeError,
                        "%U is a capsule named \"%s\": a native hook's is named \"%s\", as "
                        "ringloop_hook_new() of <ringloop/hooks.h> makes it",
                        kind, name != nullptr ? name : "", RINGLOOP_HOOK_CAPSULE);
}

// call_hook(hook, subject), for hooks that are called from Python
PyObject* call_hook(PyObject*, PyObject* arguments) {
    PyObject *given = nullptr, *subject = nullptr;
    if (PyArg_ParseTuple(arguments, "OO", &given, &subject) == 0) return nullptr;
    hook each;
    if (!read_hook(given, each) || call_one(each, subject, false, 0) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"_set_step_hooks", set_step_hooks, METH_VARARGS,
     "(on_ready, before_run, after_run, on_slow: tuples, report)"},
    {"_check_hook_capsule", check_hook_capsule, METH_VARARGS,
     "(kind, object): whether it is a native hook's capsule; TypeError for another's."},
    {"_call_hook", call_hook, METH_VARARGS, "(hook, subject)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int call_hooks(const hook_kind& kind, PyObject* task, bool timed, double seconds) noexcept {
    hook_list* const list = kind.list;
    if (list == nullptr) return 0;
    list->retain();
    int result = 0;
    for (const hook& each : list->hooks) {
        if (call_one(each, task, timed, seconds) == 0) continue;
        result = report_failure(kind.name, shown(each), task);
        if (result < 0) break;
    }
    list->release();
    return result;
}

int add_step_hooks(PyObject* module) noexcept {
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::python
