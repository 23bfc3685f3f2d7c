// stream_object: the attributes of a stock StreamReader or StreamWriter, for one call of ours.
//
// Straight from the instance's __dict__, where the stock classes keep all of them: what looks at
// the type first takes twice as long, and a read looks at eight. A name that is not there (deleted,
// or a class's) is asked for in the usual way. Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

class stream_object {
  public:
    // `object` is borrowed, and outlives this.
    explicit stream_object(PyObject* object) noexcept
        : object_(object), dict_(bridge::ref::steal(PyObject_GenericGetDict(object, nullptr))) {
        if (!dict_) PyErr_Clear();
    }

    [[nodiscard]] PyObject* object() const noexcept { return object_; }
    // Null with an exception set.
    [[nodiscard]] bridge::ref get(PyObject* name) const noexcept {
        if (dict_) {
            PyObject* const value = PyDict_GetItemWithError(dict_.get(), name);
            if (value != nullptr) return bridge::ref::share(value);
            if (PyErr_Occurred() != nullptr) return {};
        }
        return bridge::ref::steal(PyObject_GetAttr(object_, name));
    }
    // 1, 0, or -1 with an exception set.
    [[nodiscard]] int flag(PyObject* name) const noexcept {
        const bridge::ref value = get(name);
        return value ? PyObject_IsTrue(value.get()) : -1;
    }
    // 0, or -1 with an exception set.
    [[nodiscard]] int set(PyObject* name, PyObject* value) const noexcept {
        return dict_ ? PyDict_SetItem(dict_.get(), name, value)
                     : PyObject_SetAttr(object_, name, value);
    }

  private:
    PyObject* object_;
    bridge::ref dict_;
};

}  // namespace ringloop::python
