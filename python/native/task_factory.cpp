// What a factory is called with differs: CPython gives name, context and eager_start as its version
// has them; uvloop 0.23 gives eager_start=None on every version, which is left out here.
#include "task_factory.hpp"

#include <structmember.h>

#include <cstddef>

#include "native_task.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "task_steps.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

constexpr Py_ssize_t named_max = 16;
PyTypeObject* factory_type = nullptr;

struct task_factory {
    PyObject_HEAD vectorcallfunc call;
    PyObject* inner;  // the factory that makes the tasks instead; null: none
    bool eager;
};

task_factory& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<task_factory*>(object);
}

// Keywords of a call, with room for those that are added.
struct keywords {
    PyObject* names[named_max + 2];   // borrowed
    PyObject* values[named_max + 2];  // borrowed
    Py_ssize_t count = 0;

    void add(PyObject* name, PyObject* value) noexcept {
        names[count] = name;
        values[count++] = value;
    }
};

PyObject* eager_start_word() noexcept {
    static PyObject* const word = PyUnicode_InternFromString("eager_start");
    return word;
}

// The caller's keywords, eager_start where it is said or where the factory makes eager tasks.
void gather(const task_factory& self, PyObject* const* values, PyObject* names,
            keywords& into) noexcept {
    const Py_ssize_t count = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    PyObject* eager_start = self.eager ? Py_True : nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = PyTuple_GET_ITEM(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "eager_start") != 0)
            into.add(name, values[i]);
        else if (values[i] != Py_None)
            eager_start = values[i];
    }
    if (eager_start != nullptr) into.add(eager_start_word(), eager_start);
}

PyObject* call_with(PyObject* function, PyObject* const* positional, std::size_t count,
                    const keywords& named) noexcept {
    PyObject* stack[1 + 2 + named_max + 2] = {nullptr, positional[0], positional[1]};
    const ref names = ref::steal(PyTuple_New(named.count));
    if (!names) return nullptr;
    for (Py_ssize_t i = 0; i < named.count; ++i) {
        PyTuple_SET_ITEM(names.get(), i, Py_NewRef(named.names[i]));
        stack[1 + count + static_cast<std::size_t>(i)] = named.values[i];
    }
    return PyObject_Vectorcall(function, stack + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               names.get());
}

PyObject* construct(task_factory& self, PyObject* loop, PyObject* coro, PyObject* const* values,
                    PyObject* names) noexcept {
    static PyObject* const loop_word = PyUnicode_InternFromString("loop");
    if (names == nullptr && !self.eager && self.inner == nullptr)
        return new_native_task(loop, coro);
    keywords named;
    if (self.inner != nullptr) {
        gather(self, values, names, named);
        PyObject* const positional[] = {loop, coro};
        return call_with(self.inner, positional, 2, named);
    }
    named.add(loop_word, loop);
    gather(self, values, names, named);
    PyObject* const positional[] = {coro, nullptr};
    return call_with(native_task_type, positional, 1, named);
}

PyObject* call(PyObject* object, PyObject* const* arguments, std::size_t flagged_count,
               PyObject* names) {
    if (PyVectorcall_NARGS(flagged_count) != 2) {
        PyErr_SetString(PyExc_TypeError, "a task factory is called with a loop and a coroutine");
        return nullptr;
    }
    return make_task(object, arguments[0], arguments[1], arguments + 2, names);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self_of(object).inner);
    return 0;
}

int clear(PyObject* object) {
    Py_CLEAR(self_of(object).inner);
    return 0;
}

void deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(task_factory, call), READONLY, nullptr},
    {"factory", T_OBJECT, offsetof(task_factory, inner), READONLY,
     "The factory that makes the tasks; None: NativeTasks."},
    {"eager", T_BOOL, offsetof(task_factory, eager), READONLY, "Whether tasks begin at once."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A task factory, for loop.set_task_factory().")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"ringloop._native.TaskFactory", sizeof(task_factory), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

PyObject* new_factory(PyObject*, PyObject* arguments) {
    PyObject* inner = nullptr;
    int eager = 0;
    if (PyArg_ParseTuple(arguments, "Op", &inner, &eager) == 0) return nullptr;
    task_factory* made = PyObject_GC_New(task_factory, factory_type);
    if (made == nullptr) return nullptr;
    made->call = call;
    made->inner = inner != Py_None ? Py_NewRef(inner) : nullptr;
    made->eager = eager != 0;
    PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

PyMethodDef functions[] = {{"_task_factory", new_factory, METH_VARARGS, "(factory or None, eager)"},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool makes_native_tasks(PyObject* factory) noexcept {
    return Py_IS_TYPE(factory, factory_type) && self_of(factory).inner == nullptr;
}

PyObject* make_task(PyObject* factory, PyObject* loop, PyObject* coro, PyObject* const* values,
                    PyObject* names) noexcept {
    task_factory& self = self_of(factory);
    if (names != nullptr && PyTuple_GET_SIZE(names) > named_max) {
        PyErr_Format(PyExc_TypeError, "a task takes at most %zd keywords", named_max);
        return nullptr;
    }
    if (!step_hooks_set) return construct(self, loop, coro, values, names);
    const ref hooked = with_hooks(coro);
    ref task = hooked ? ref::steal(construct(self, loop, hooked.get(), values, names)) : ref();
    const bool its_own = self.inner == nullptr;
    return task && tell_created(hooked.get(), task.get(), its_own) == 0 ? task.release() : nullptr;
}

int add_task_factory_type(PyObject* module) noexcept {
    PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
    factory_type = reinterpret_cast<PyTypeObject*>(type);
    return type != nullptr ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace ringloop::python
