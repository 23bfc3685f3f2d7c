// The asynchronous iterator that Python sees of a generator: `async for`, anext(), aclose().
//
// Thread: the loop's, GIL held.
#include <Python.h>

#include <memory>

#include "ringloop/bridge/python/awaitable.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

PyTypeObject* iterator_type = nullptr;

struct iterator {
    PyObject ob_base;
    iterator_source* work;
};

iterator& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<iterator*>(object);
}

void deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    delete self_of(object).work;
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    iterator_source* work = self_of(object).work;
    return work != nullptr ? work->traverse(visit, arg) : 0;
}

PyObject* next(PyObject* object) {
    return self_of(object).work->next();
}

PyObject* close(PyObject* object, PyObject*) {
    return self_of(object).work->close();
}

PyObject* represent(PyObject* object) {
    return PyUnicode_FromFormat("<ringloop.AsyncIterator %s>", self_of(object).work->name());
}

PyMethodDef methods[] = {
    {"aclose", close, METH_NOARGS, "Ends the generator where it stands. Awaitable."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The values that a native generator yields.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_am_aiter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_am_anext, reinterpret_cast<void*>(next)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"ringloop.AsyncIterator", sizeof(iterator), 0,
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
    PyObject_GC_Track(&made->ob_base);
    return &made->ob_base;
}

}  // namespace ringloop::bridge
