// convert<T>: between T and Python objects, by the binding tool's own rules (pybind11.hpp,
// nanobind.hpp define it).
//
//     static PyObject* to(T&& value);      new reference; throws
//     static T from(PyObject* object);     throws
//
// own<T>: the same for types of ringloop's, which both tools treat alike.
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
template <>
struct convert<ref> {
    static PyObject* to(ref&& value) noexcept {
        return value ? value.release() : Py_NewRef(Py_None);
    }
    static ref from(PyObject* object) noexcept { return ref::share(object); }
};

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

namespace detail {

// What a binding tool's caster needs of a type of ours:
//     static constexpr char name[];                    in signatures
//     static bool read(PyObject* object, T& into);     false: another type, or an exception is set
//     static PyObject* give(T value);                  new reference, or null with one set
template <class T>
struct own;
template <>
struct own<ref> {
    static constexpr char name[] = "object";
    static bool read(PyObject* object, ref& into) noexcept {
        into = ref::share(object);
        return true;
    }
    static PyObject* give(ref&& value) noexcept { return convert<ref>::to(std::move(value)); }
};
template <>
struct own<bytes> {
    static constexpr char name[] = "bytes";
    static bool read(PyObject* object, bytes& into) {
        return PyObject_CheckBuffer(object) != 0 && bytes::read(object, into);
    }
    static PyObject* give(const bytes& value) noexcept { return value.object(); }
};

template <class T>
concept is_own = requires {
    own<T>::name;
};

}  // namespace detail
}  // namespace ringloop::py
