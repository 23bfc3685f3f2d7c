// create_task() and create_future() without a frame of Python's, for what nearly every call is: no
// task factory but ours, no debug mode. All else is the running CPython's own create_task().
// asyncio's classes are looked up in their modules at every call, as its own methods do: a program
// may have replaced them.
//
// GIL held, the loop's thread.
#include "loop_object.hpp"
#include "task_factory.hpp"
#include "task_steps.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}

// Borrowed; null with an exception set. Modules of asyncio stay for good.
PyObject* dictionary_of(const char* module_name) noexcept {
    const ref module = ref::steal(PyImport_ImportModule(module_name));
    return module ? PyModule_GetDict(module.get()) : nullptr;
}

// A new reference to what the module calls `name`; null with an exception set.
ref asyncio_global(PyObject* dictionary, PyObject* name) noexcept {
    if (dictionary == nullptr || name == nullptr) return {};
    PyObject* found = PyDict_GetItemWithError(dictionary, name);
    if (found == nullptr && !PyErr_Occurred())
        PyErr_Format(PyExc_NameError, "asyncio has no %U", name);
    return found != nullptr ? ref::share(found) : ref();
}

bool is_one_of(PyObject* word, const char* a, const char* b) noexcept {
    return PyUnicode_CompareWithASCIIString(word, a) == 0 ||
           PyUnicode_CompareWithASCIIString(word, b) == 0;
}

// The names of Task's keywords: loop, then the caller's. Null without an exception: not for here.
ref task_keywords(PyObject* names) noexcept {
    static PyObject* const loop_only = Py_BuildValue("(s)", "loop");
    if (names == nullptr) return loop_only != nullptr ? ref::share(loop_only) : ref();
    const Py_ssize_t count = PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!is_one_of(PyTuple_GET_ITEM(names, i), "name", "context")) return {};
    return ref::steal(PySequence_Concat(loop_only, names));
}

PyObject* base_create_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                           PyObject* names) noexcept {
    static PyObject* const word = PyUnicode_InternFromString("BaseEventLoop");
    const ref base = asyncio_global(dictionary_of("asyncio.base_events"), word);
    if (!base) return nullptr;
    const ref method = ref::steal(PyObject_GetAttrString(base.get(), "create_task"));
    if (!method) return nullptr;
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    const ref all = ref::steal(PyTuple_New(1 + count));
    const ref keywords = ref::steal(PyDict_New());
    if (!all || !keywords) return nullptr;
    PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(all.get(), 1 + i, Py_NewRef(arguments[i]));
    for (Py_ssize_t i = 0; i < named; ++i)
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), arguments[count + i]) < 0)
            return nullptr;
    return PyObject_Call(method.get(), all.get(), keywords.get());
}

PyObject* create_plain_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* names) noexcept {
    constexpr Py_ssize_t named_max = 2;
    loop_object* loop = cast(self);
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    const bool has_factory = loop->task_factory != nullptr && loop->task_factory != Py_None;
    if (has_factory && !loop->closed && count == 1 && makes_native_tasks(loop->task_factory))
        return make_task(loop->task_factory, self, arguments[0], arguments + 1, names);
    if (loop->closed || loop->debug || has_factory || count != 1 || named > named_max)
        return base_create_task(self, arguments, count, names);
    const ref keywords = task_keywords(names);
    if (!keywords && PyErr_Occurred()) return nullptr;
    if (!keywords) return base_create_task(self, arguments, count, names);
    static PyObject* const module = dictionary_of("asyncio.tasks");
    static PyObject* const word = PyUnicode_InternFromString("Task");
    const ref type = asyncio_global(module, word);
    if (!type) return nullptr;
    PyObject* stack[1 + 1 + 1 + named_max] = {nullptr, arguments[0], self};
    for (Py_ssize_t i = 0; i < named; ++i) stack[3 + i] = arguments[1 + i];
    return PyObject_Vectorcall(type.get(), stack + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               keywords.get());
}

// The same with the coroutine replaced by one that calls the hooks.
PyObject* create_hooked_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* names) noexcept {
    constexpr Py_ssize_t named_max = 16;
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (named > named_max)
        return PyErr_Format(PyExc_TypeError, "create_task() takes at most %zd keywords", named_max);
    const ref hooked = with_hooks(arguments[0]);
    if (!hooked) return nullptr;
    PyObject* replaced[1 + named_max] = {hooked.get()};
    for (Py_ssize_t i = 0; i < named; ++i) replaced[1 + i] = arguments[1 + i];
    const ref factory = ref::share(cast(self)->task_factory);
    ref task = ref::steal(create_plain_task(self, replaced, count, names));
    const bool its_own = !factory || factory.get() == Py_None || makes_native_tasks(factory.get());
    return task && tell_created(hooked.get(), task.get(), its_own) == 0 ? task.release() : nullptr;
}

PyObject* create_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* names) noexcept {
    if (step_hooks_set && count == 1) return create_hooked_task(self, arguments, count, names);
    return create_plain_task(self, arguments, count, names);
}

PyObject* create_future(PyObject* self, PyObject*) noexcept {
    static PyObject* const module = dictionary_of("asyncio.futures");
    static PyObject* const word = PyUnicode_InternFromString("Future");
    static PyObject* const keywords = Py_BuildValue("(s)", "loop");
    const ref type = asyncio_global(module, word);
    if (!type || keywords == nullptr) return nullptr;
    PyObject* stack[] = {nullptr, self};
    return PyObject_Vectorcall(type.get(), stack + 1, PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

// Every future and task asks for it.
PyObject* get_debug(PyObject* self, PyObject*) noexcept {
    return PyBool_FromLong(cast(self)->debug);
}

}  // namespace

PyMethodDef loop_task_methods[] = {
    {"create_task", bridge::method(create_task), METH_FASTCALL | METH_KEYWORDS,
#if PY_VERSION_HEX >= 0x030e0000
     "create_task($self, coro, **kwargs)\n--\n\n"
#else
     "create_task($self, coro, *, name=None, context=None)\n--\n\n"
#endif
     "Schedules a coroutine as a Task of this loop; the task factory makes it if there is one."},
    {"create_future", create_future, METH_NOARGS,
     "create_future($self)\n--\n\nA new asyncio.Future of this loop."},
    {"get_debug", get_debug, METH_NOARGS, "get_debug($self)\n--\n\nWhether debug mode is on."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
