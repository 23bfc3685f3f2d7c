// arguments: puts the keywords of METH_FASTCALL | METH_KEYWORDS calls into their places, so that
// native methods can be called like the Python ones they stand for.
//
// GIL held. Everything is borrowed from the call.
#pragma once

#include <Python.h>

namespace ringloop::python {

struct parameter_list {
    const char* function;
    const char* const* names;
    Py_ssize_t required;
    Py_ssize_t most;
    bool variadic = false;       // *args follow: taken from the call by the caller
    bool takes_context = false;  // a keyword-only context=
};

// Fills values[0 … most) (null: not given) and *context. False with TypeError set.
inline bool bind(const parameter_list& list, PyObject* const* arguments, Py_ssize_t count,
                 PyObject* keywords, PyObject** values, PyObject** context = nullptr) noexcept {
    if (count > list.most && !list.variadic) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments but %zd were given",
                     list.function, list.most, count);
        return false;
    }
    for (Py_ssize_t i = 0; i < list.most; ++i) values[i] = i < count ? arguments[i] : nullptr;
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t k = 0; k < named; ++k) {
        PyObject* keyword = PyTuple_GET_ITEM(keywords, k);
        PyObject** place = nullptr;
        if (list.takes_context && PyUnicode_CompareWithASCIIString(keyword, "context") == 0)
            place = context;
        for (Py_ssize_t i = 0; place == nullptr && i < list.most; ++i)
            if (PyUnicode_CompareWithASCIIString(keyword, list.names[i]) == 0) place = &values[i];
        if (place == nullptr || *place != nullptr) {
            PyErr_Format(PyExc_TypeError,
                         place == nullptr ? "%s() got an unexpected keyword argument '%U'"
                                          : "%s() got multiple values for argument '%U'",
                         list.function, keyword);
            return false;
        }
        *place = arguments[count + k];
    }
    for (Py_ssize_t i = 0; i < list.required; ++i) {
        if (values[i] != nullptr) continue;
        PyErr_Format(PyExc_TypeError, "%s() missing a required positional argument: '%s'",
                     list.function, list.names[i]);
        return false;
    }
    return true;
}

}  // namespace ringloop::python
