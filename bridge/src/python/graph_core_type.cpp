// GraphCore: ringloop/detail/graph_core.hpp as Python's Graph sees it. It holds no Python object:
// nodes are numbers, their values and functions are the Graph's. Thread: any one at a time, GIL.
#include <memory>
#include <new>

#include "call_workers.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/graphs.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/detail/graph_core.hpp"

namespace ringloop::bridge {
namespace {

using detail::graph_core;
using detail::graph_edge;
using detail::no_node;
using detail::node_id;

struct graph_object {
    PyObject ob_base;
    graph_core* core;
};

graph_core& core_of(PyObject* object) noexcept {
    return *reinterpret_cast<graph_object*>(object)->core;
}

// `body` returns a new reference, or null with an exception set, and may throw.
template <class Body>
PyObject* guarded(Body body) noexcept {
    try {
        return body();
    } catch (...) {
        raise_from(std::current_exception());
        return nullptr;
    }
}

PyObject* new_graph(PyTypeObject* type, PyObject*, PyObject*) {
    const ref made = ref::steal(type->tp_alloc(type, 0));
    if (!made) return nullptr;
    auto* const core = new (std::nothrow) graph_core();
    reinterpret_cast<graph_object*>(made.get())->core = core;
    return core != nullptr ? Py_NewRef(made.get()) : PyErr_NoMemory();
}

void deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    delete reinterpret_cast<graph_object*>(object)->core;
    type->tp_free(object);
    Py_DECREF(type);
}

std::string text_of(PyObject* text) {
    Py_ssize_t size = 0;
    const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size);
    if (bytes == nullptr) {
        PyErr_Clear();
        throw graph_error("graph: a name is a str that UTF-8 can hold");
    }
    return {bytes, static_cast<std::size_t>(size)};
}

PyObject* python_text(const std::string& text) noexcept {
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

// A node's number, which the Graph has from add().
node_id number_of(const graph_core& core, PyObject* number) {
    const unsigned long id = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() != nullptr || id >= core.size()) {
        PyErr_Clear();
        throw std::out_of_range("GraphCore: no node of that number");
    }
    return static_cast<node_id>(id);
}

std::vector<node_id> numbers_of(const graph_core& core, PyObject* list) {
    std::vector<node_id> found;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
        found.push_back(number_of(core, PyList_GET_ITEM(list, i)));
    return found;
}

template <class Numbers>
PyObject* number_list(const Numbers& numbers) noexcept {
    ref made = ref::steal(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
    for (std::size_t i = 0; made && i < numbers.size(); ++i) {
        PyObject* const number = PyLong_FromUnsignedLong(numbers[i]);
        if (number == nullptr) return nullptr;
        PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), number);
    }
    return made.release();
}

PyObject* add(PyObject* object, PyObject* args) {
    PyObject *name = nullptr, *where = nullptr, *needs = nullptr;
    if (PyArg_ParseTuple(args, "UUO!:add", &name, &where, &PyList_Type, &needs) == 0)
        return nullptr;
    return guarded([&] {
        graph_core& core = core_of(object);
        std::vector<graph_edge> edges;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(needs); ++i) {
            PyObject* const need = PyList_GET_ITEM(needs, i);
            if (PyUnicode_Check(need) != 0)
                edges.push_back({no_node, text_of(need)});
            else
                edges.push_back({number_of(core, need), {}});
        }
        return PyLong_FromUnsignedLong(core.add(text_of(name), text_of(where), std::move(edges)));
    });
}

PyObject* add_input(PyObject* object, PyObject* name) {
    if (PyUnicode_Check(name) == 0)
        return PyErr_Format(PyExc_TypeError, "a node's name is a str, not %R", name);
    return guarded(
        [&] { return PyLong_FromUnsignedLong(core_of(object).add_input(text_of(name))); });
}

PyObject* check(PyObject* object, PyObject*) {
    return guarded([&] {
        core_of(object).check();
        return Py_NewRef(Py_None);
    });
}

PyObject* needs(PyObject* object, PyObject* number) {
    return guarded([&] {
        const graph_core& core = core_of(object);
        return number_list(core.needs(number_of(core, number)));
    });
}

PyObject* changed(PyObject* object, PyObject* number) {
    return guarded([&] {
        core_of(object).changed(number_of(core_of(object), number));
        return Py_NewRef(Py_None);
    });
}

PyObject* touch(PyObject* object, PyObject* number) {
    return guarded([&] {
        core_of(object).touch(number_of(core_of(object), number));
        return Py_NewRef(Py_None);
    });
}

PyObject* due(PyObject* object, PyObject* args) {
    PyObject* targets = nullptr;
    if (PyArg_ParseTuple(args, "O!:due", &PyList_Type, &targets) == 0) return nullptr;
    return guarded([&] {
        graph_core& core = core_of(object);
        return number_list(core.due(numbers_of(core, targets)));
    });
}

PyObject* begin(PyObject* object, PyObject* args) {
    PyObject* targets = nullptr;
    if (PyArg_ParseTuple(args, "O!:begin", &PyList_Type, &targets) == 0) return nullptr;
    return guarded([&] {
        graph_core& core = core_of(object);
        core.begin(numbers_of(core, targets));
        return Py_NewRef(Py_None);
    });
}

PyObject* take(PyObject* object, PyObject* now_ns) {
    const long long now = PyLong_AsLongLong(now_ns);
    if (now == -1 && PyErr_Occurred() != nullptr) return nullptr;
    const node_id id = core_of(object).take(now);
    return id == no_node ? PyLong_FromLong(-1) : PyLong_FromUnsignedLong(id);
}

PyObject* ended(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "ended(node, how, now_ns)");
    const long how = PyLong_AsLong(args[1]);
    const long long now = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() != nullptr) return nullptr;
    return guarded([&] {
        constexpr node_state hows[] = {node_state::done, node_state::failed, node_state::cancelled};
        if (how < 0 || how > 2) throw std::out_of_range("GraphCore: no such end");
        graph_core& core = core_of(object);
        core.ended(number_of(core, args[0]), hows[how], now);
        return Py_NewRef(Py_None);
    });
}

PyObject* cancel(PyObject* object, PyObject* number) {
    return guarded([&] {
        graph_core& core = core_of(object);
        return PyBool_FromLong(core.cancel(number_of(core, number)));
    });
}

PyObject* stop(PyObject* object, PyObject*) {
    core_of(object).stop();
    Py_RETURN_NONE;
}

PyObject* finish(PyObject* object, PyObject*) {
    return guarded([&] {
        const graph_report report = core_of(object).finish();
        ref names = ref::steal(PyList_New(0));
        for (const std::string& name : report.ran) {
            const ref text = ref::steal(names ? python_text(name) : nullptr);
            if (!text || PyList_Append(names.get(), text.get()) < 0)
                return static_cast<PyObject*>(nullptr);
        }
        return Py_BuildValue("Nn", names.release(), static_cast<Py_ssize_t>(report.kept));
    });
}

PyObject* troubles(PyObject* object, PyObject*) {
    return number_list(core_of(object).troubles());
}

PyObject* describe_troubles(PyObject* object, PyObject*) {
    return guarded([&] { return python_text(core_of(object).describe_troubles()); });
}

PyObject* describe_cancelled(PyObject* object, PyObject* number) {
    return guarded([&] {
        const graph_core& core = core_of(object);
        return python_text(core.describe_cancelled(number_of(core, number)));
    });
}

PyObject* because(PyObject* object, PyObject* number) {
    return guarded([&] {
        const graph_core& core = core_of(object);
        const node_id found = core.because(number_of(core, number));
        return found == no_node ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(found);
    });
}

PyObject* state(PyObject* object, PyObject* number) {
    return guarded([&] {
        const graph_core& core = core_of(object);
        return PyUnicode_InternFromString(to_string(core.state(number_of(core, number))));
    });
}

PyObject* runs(PyObject* object, PyObject* number) {
    return guarded([&] {
        const graph_core& core = core_of(object);
        return PyLong_FromUnsignedLongLong(core.runs(number_of(core, number)));
    });
}

PyObject* dot(PyObject* object, PyObject*) {
    return guarded([&] { return python_text(core_of(object).dot()); });
}

PyObject* text(PyObject* object, PyObject*) {
    return guarded([&] { return python_text(core_of(object).text()); });
}

PyObject* is_over(PyObject* object, void*) {
    return PyBool_FromLong(core_of(object).is_over());
}

PyObject* is_running(PyObject* object, void*) {
    return PyBool_FromLong(core_of(object).is_running());
}

PyMethodDef methods[] = {{"add", add, METH_VARARGS, nullptr},
                         {"add_input", add_input, METH_O, nullptr},
                         {"check", check, METH_NOARGS, nullptr},
                         {"needs", needs, METH_O, nullptr},
                         {"changed", changed, METH_O, nullptr},
                         {"touch", touch, METH_O, nullptr},
                         {"due", due, METH_VARARGS, nullptr},
                         {"begin", begin, METH_VARARGS, nullptr},
                         {"take", take, METH_O, nullptr},
                         {"ended", method(ended), METH_FASTCALL, nullptr},
                         {"cancel", cancel, METH_O, nullptr},
                         {"stop", stop, METH_NOARGS, nullptr},
                         {"finish", finish, METH_NOARGS, nullptr},
                         {"troubles", troubles, METH_NOARGS, nullptr},
                         {"describe_troubles", describe_troubles, METH_NOARGS, nullptr},
                         {"describe_cancelled", describe_cancelled, METH_O, nullptr},
                         {"because", because, METH_O, nullptr},
                         {"state", state, METH_O, nullptr},
                         {"runs", runs, METH_O, nullptr},
                         {"dot", dot, METH_NOARGS, nullptr},
                         {"text", text, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {{"is_over", is_over, nullptr, nullptr, nullptr},
                            {"is_running", is_running, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("The native half of ringloop.Graph.")},
                       {Py_tp_new, reinterpret_cast<void*>(new_graph)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {0, nullptr}};
PyType_Spec spec = {"ringloop._native.GraphCore", sizeof(graph_object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

PyMethodDef functions[] = {
    {"_offload", method(offload_call), METH_FASTCALL,
     "_offload(function, /, *args)\n--\n\nAn await of function(*args) on a worker thread."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_graph_types(PyObject* module) noexcept {
    const ref type = ref::steal(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (!type || PyModule_AddObjectRef(module, "GraphCore", type.get()) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::bridge
