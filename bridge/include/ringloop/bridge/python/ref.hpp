// ref: one owned reference to a Python object. Every member needs the GIL.
// Thread: any.
#pragma once

#include <Python.h>

#include <utility>

namespace ringloop::bridge {

class ref {
  public:
    ref() noexcept = default;
    ref(ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    ref& operator=(ref&& other) noexcept {
        ref taken(std::move(other));
        std::swap(object_, taken.object_);
        return *this;
    }
    ref(const ref&) = delete;
    ref& operator=(const ref&) = delete;
    ~ref() { Py_XDECREF(object_); }

    // steal: takes over a new reference (null: an exception is set). share: adds one of its own.
    [[nodiscard]] static ref steal(PyObject* object) noexcept { return ref(object); }
    [[nodiscard]] static ref share(PyObject* object) noexcept {
        Py_XINCREF(object);
        return ref(object);
    }

    [[nodiscard]] PyObject* get() const noexcept { return object_; }
    [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

  private:
    explicit ref(PyObject* object) noexcept : object_(object) {}
    PyObject* object_ = nullptr;
};

// Takes the exception that is set, normalised (null: none). Its twin puts it back.
[[nodiscard]] inline ref take_exception() noexcept {
#if PY_VERSION_HEX >= 0x030C0000
    return ref::steal(PyErr_GetRaisedException());
#else
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == nullptr) return {};
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    Py_XDECREF(traceback);
    Py_DECREF(type);
    return ref::steal(value);
#endif
}

inline void restore_exception(ref exception) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception.release());
#else
    PyObject* value = exception.release();
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value))), value,
                  PyException_GetTraceback(value));
#endif
}

// RuntimeError(text), whose cause and context `exception` is: for what must not leave a coroutine
// or an iterator as it is.
[[nodiscard]] inline ref raised_inside(const char* text, ref exception) noexcept {
    PyErr_SetString(PyExc_RuntimeError, text);
    ref made = take_exception();
    PyException_SetContext(made.get(), Py_NewRef(exception.get()));
    PyException_SetCause(made.get(), exception.release());
    return made;
}

// A C function as PyMethodDef wants it, whatever its calling convention.
template <typename Function>
[[nodiscard]] PyCFunction method(Function* function) noexcept {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace ringloop::bridge
