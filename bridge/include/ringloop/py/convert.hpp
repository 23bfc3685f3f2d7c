// convert<T>: between T and Python objects, by the binding tool's own rules (pybind11.hpp,
// nanobind.hpp define it).
//
//     static PyObject* to(T&& value);      new reference; throws
//     static T from(PyObject* object);     throws
//
// bytes: a string of bytes, which the tools' own tables take for text.
// Thread: GIL.
#pragma once

#include <Python.h>

#include <string>
#include <utility>

#include "ringloop/py/ref.hpp"

namespace ringloop::py {

template <class T>
struct convert;

// Python's bytes, and as a parameter every object with a contiguous buffer (copied).
struct bytes {
    bytes() = default;
    explicit bytes(std::string held) noexcept : data(std::move(held)) {}
    std::string data;

    // False with an exception set.
    [[nodiscard]] static bool read(PyObject* object, bytes& into) {
        Py_buffer view;
        if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return false;
        try {
            into.data.assign(static_cast<const char*>(view.buf),
                             static_cast<std::size_t>(view.len));
        } catch (...) {
            PyBuffer_Release(&view);
            throw;
        }
        PyBuffer_Release(&view);
        return true;
    }
    [[nodiscard]] PyObject* object() const noexcept {
        return PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size()));
    }
};

}  // namespace ringloop::py
