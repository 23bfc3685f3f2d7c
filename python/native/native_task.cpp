// The type is derived at run time from asyncio.Task, whose layout is CPython's own: the number
// stands behind it. Contract in native_task.hpp.
#include "native_task.hpp"

#include <cstdint>
#include <utility>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/bridge/python/task_wakeup.hpp"

namespace ringloop::python {

using bridge::ref;

PyObject* native_task_type = nullptr;

namespace {

Py_ssize_t number_offset = 0;
std::uint64_t last_number = 0;
destructor base_dealloc = nullptr;
PyObject* base_set_name = nullptr;

std::uint64_t& number_of(PyObject* self) noexcept {
    return *reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(self) + number_offset);
}

PyObject* get_node_id(PyObject* self, void*) noexcept {
    std::uint64_t& number = number_of(self);
    if (number == 0) number = ++last_number;
    return PyLong_FromUnsignedLongLong(number);
}

// asyncio's create_task() of Python 3.13.0 gives None for no name.
PyObject* set_name(PyObject* self, PyObject* value) noexcept {
    if (value == Py_None) Py_RETURN_NONE;
    PyObject* arguments[] = {self, value};
    return PyObject_Vectorcall(base_set_name, arguments, 2, nullptr);
}

// Without the detour that classes written in Python take.
void dealloc(PyObject* self) noexcept {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) return;  // resurrected
    base_dealloc(self);
}

PyMethodDef methods[] = {{"set_name", set_name, METH_O,
                          "set_name($self, value, /)\n--\n\nThe task's name, of str(value)."},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {
    {"node_id", get_node_id, nullptr,
     "1 or more, of this process's NativeTasks its own; drawn when it is first asked for.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr const char* doc =
    "A task of asyncio's with a number: node_id.\n\n"
    "It is made by task_factory(), or by hand as asyncio.Task is.";

ref make_type(PyObject* module, PyTypeObject* base) noexcept {
    // A static type's destructor leaves the type's reference to the generic one (Python 3.11).
    const bool own_dealloc = (base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>(doc)},
        {Py_tp_methods, methods},
        {Py_tp_getset, attributes},
        {own_dealloc ? Py_tp_dealloc : 0, reinterpret_cast<void*>(dealloc)},
        {0, nullptr},
    };
    number_offset = base->tp_basicsize;
    PyType_Spec spec = {"ringloop.NativeTask",
                        static_cast<int>(number_offset) + static_cast<int>(sizeof(std::uint64_t)),
                        0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    base_dealloc = base->tp_dealloc;
    const ref bases = ref::steal(PyTuple_Pack(1, reinterpret_cast<PyObject*>(base)));
    if (!bases) return {};
    // Methods of asyncio's look for their module from the type that they are called on: this way
    // they find it at once.
    PyObject* its_module = own_dealloc ? PyType_GetModule(base) : nullptr;
    PyErr_Clear();  // a Task written in Python has none
    if (its_module == nullptr) its_module = module;
    ref made = ref::steal(PyType_FromModuleAndSpec(its_module, &spec, bases.get()));
    // A task that wakes up asks for "result" by a new string each time, past every cache: here it
    // is found first.
    const ref result =
        made ? ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), "result"))
             : ref();
    if (!result || PyObject_SetAttrString(made.get(), "result", result.get()) < 0) return {};
    return made;
}

}  // namespace

PyObject* new_native_task(PyObject* loop, PyObject* coro) noexcept {
    static PyObject* const loop_word = PyUnicode_InternFromString("loop");
    static PyObject* spare = nullptr;  // {"loop": None}; null while a call has it
    ref keywords = ref::steal(spare != nullptr ? std::exchange(spare, nullptr) : PyDict_New());
    const ref arguments = ref::steal(PyTuple_Pack(1, coro));
    if (!keywords || !arguments || PyDict_SetItem(keywords.get(), loop_word, loop) < 0)
        return nullptr;
    auto* const type = reinterpret_cast<PyTypeObject*>(native_task_type);
    ref made = ref::steal(type->tp_new(type, arguments.get(), keywords.get()));
    if (made && type->tp_init(made.get(), arguments.get(), keywords.get()) < 0) return nullptr;
    const bool is_ours = Py_REFCNT(keywords.get()) == 1 && spare == nullptr;
    if (is_ours && PyDict_SetItem(keywords.get(), loop_word, Py_None) == 0)
        spare = keywords.release();
    return made.release();
}

PyObject* argument_of_native_task(PyObject* callback, PyObject* task) noexcept {
    PyObject* const sooner = bridge::value_for(callback, task);
    if (sooner == task) return task;
    static PyObject* const exception_word = PyUnicode_InternFromString("_exception");
    static PyObject* const state_word = PyUnicode_InternFromString("_state");
    const ref exception = ref::steal(PyObject_GetAttr(task, exception_word));
    const ref state = exception ? ref::steal(PyObject_GetAttr(task, state_word)) : ref();
    if (!state) PyErr_Clear();  // then the task itself says how it has ended
    const bool has_value = state && exception.get() == Py_None &&
                           PyUnicode_CompareWithASCIIString(state.get(), "FINISHED") == 0;
    return has_value ? sooner : task;
}

int add_native_task_type(PyObject* module) noexcept {
    const ref tasks = ref::steal(PyImport_ImportModule("asyncio.tasks"));
    const ref base = tasks ? ref::steal(PyObject_GetAttrString(tasks.get(), "Task")) : ref();
    if (!base) return -1;
    base_set_name = PyObject_GetAttrString(base.get(), "set_name");
    native_task_type = make_type(module, reinterpret_cast<PyTypeObject*>(base.get())).release();
    if (base_set_name == nullptr || native_task_type == nullptr) return -1;
    return PyModule_AddObjectRef(module, "NativeTask", native_task_type);
}

}  // namespace ringloop::python
