// The wake-up of a task, recognised; and the finished future for it.
#include "ringloop/bridge/python/task_wakeup.hpp"

#include <cstring>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::bridge {
namespace {

PyTypeObject* task_type = nullptr;
PyObject* finished = nullptr;        // an asyncio.Future of no loop, with None
const PyMethodDef* known = nullptr;  // of task_wakeup(), once it was seen

[[nodiscard]] bool is_task_wakeup(PyObject* callback) noexcept {
    if (PyCFunction_CheckExact(callback) == 0) return false;
    const PyMethodDef* const method = reinterpret_cast<PyCFunctionObject*>(callback)->m_ml;
    if (method == known) return true;
    PyObject* const owner = PyCFunction_GET_SELF(callback);
    if (std::strcmp(method->ml_name, "task_wakeup") != 0 || owner == nullptr ||
        task_type == nullptr || PyObject_TypeCheck(owner, task_type) == 0)
        return false;
    known = method;
    return true;
}

}  // namespace

int prepare_wakeups() noexcept {
    const ref futures = ref::steal(PyImport_ImportModule("asyncio"));
    const ref types = ref::steal(PyImport_ImportModule("types"));
    if (!futures || !types) return -1;
    const ref task = ref::steal(PyObject_GetAttrString(futures.get(), "Task"));
    if (!task) return -1;
    // Only get_debug() of its loop is ever asked for: bool() is False.
    const ref space = ref::steal(PyObject_GetAttrString(types.get(), "SimpleNamespace"));
    const ref nothing = ref::steal(PyTuple_New(0));
    const ref names =
        ref::steal(Py_BuildValue("{sO}", "get_debug", reinterpret_cast<PyObject*>(&PyBool_Type)));
    if (!space || !nothing || !names) return -1;
    const ref loop = ref::steal(PyObject_Call(space.get(), nothing.get(), names.get()));
    const ref type = ref::steal(PyObject_GetAttrString(futures.get(), "Future"));
    const ref given = loop ? ref::steal(Py_BuildValue("{sO}", "loop", loop.get())) : ref();
    if (!type || !given) return -1;
    ref made = ref::steal(PyObject_Call(type.get(), nothing.get(), given.get()));
    if (!made) return -1;
    const ref answer = ref::steal(PyObject_CallMethod(made.get(), "set_result", "O", Py_None));
    if (!answer) return -1;
    if (PyType_Check(task.get()))  // else somebody has put something else in its place
        task_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(task.get()));
    finished = made.release();
    return 0;
}

PyObject* value_for(PyObject* callback, PyObject* awaitable) noexcept {
    return is_task_wakeup(callback) ? finished : awaitable;
}

}  // namespace ringloop::bridge
