// The asynchronous iterator that Python sees of a generator: `async for`, anext(), aclose().
//
// Thread: the loop's, GIL held.
#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/leaks.hpp"
#include "table.hpp"

namespace ringloop::bridge {

long iterators_live = 0;

namespace {

PyTypeObject* iterator_type = nullptr;
constexpr const char* type_name = "ringloop.AsyncIterator";

struct iterator {
    PyObject ob_base;
    iterator_source* work;  // null once the collector has taken it from a cycle
    PyObject* weak_references;
};

iterator& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<iterator*>(object);
}

int clear(PyObject* object) {
    delete std::exchange(self_of(object).work, nullptr);
    return 0;
}

void deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self_of(object).weak_references != nullptr) PyObject_ClearWeakRefs(object);
    clear(object);
    --iterators_live;
    if (leaks_watched) forget_leak(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    iterator_source* work = self_of(object).work;
    return work != nullptr ? work->traverse(visit, arg) : 0;
}

// Null with an exception set.
iterator_source* work_of(PyObject* object) noexcept {
    iterator_source* const work = self_of(object).work;
    if (work == nullptr)
        PyErr_SetString(PyExc_RuntimeError,
                        "this asynchronous iterator was in a cycle that has been collected");
    return work;
}

PyObject* next(PyObject* object) {
    iterator_source* const work = work_of(object);
    return work != nullptr ? work->next() : nullptr;
}

PyObject* close(PyObject* object, PyObject*) {
    iterator_source* const work = work_of(object);
    return work != nullptr ? work->close() : nullptr;
}

PyObject* represent(PyObject* object) {
    const iterator_source* const work = self_of(object).work;
    return PyUnicode_FromFormat("<%s %s>", type_name, work != nullptr ? work->name() : "collected");
}

PyMethodDef methods[] = {
    {"aclose", close, METH_NOARGS, "Ends the generator where it stands. Awaitable."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(iterator, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The values that a native generator yields.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_am_aiter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_am_anext, reinterpret_cast<void*>(next)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {type_name, sizeof(iterator), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                        Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

}  // namespace

int add_iterator_type() noexcept {
    iterator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return iterator_type != nullptr ? 0 : -1;
}

PyObject* new_iterator(std::unique_ptr<iterator_source> work) noexcept {
    if (!work) return PyErr_NoMemory();
    auto* made = PyObject_GC_New(iterator, iterator_type);
    if (made == nullptr) return nullptr;
    made->work = work.release();
    made->weak_references = nullptr;
    PyObject_GC_Track(&made->ob_base);
    ++iterators_live;
    if (leaks_watched) {
        const ref site = ref::steal(creation_site());
        note_leak(&made->ob_base, type_name, made->work->name(), site.get());
    }
    return &made->ob_base;
}

}  // namespace ringloop::bridge
