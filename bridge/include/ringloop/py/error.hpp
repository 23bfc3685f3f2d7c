// py::error: a Python exception in native code, and how native exceptions become Python's.
//
// What await() and function::call() throw when Python raised. It keeps the exception object itself:
// type, value, traceback, cause; when it leaves native code again, Python gets the same object.
// raise() is the way back, for every exception: the table is in docs/bridge.md.
//
// Thread: py::error may be moved, copied and destroyed anywhere; raise() with the GIL.
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <string>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/py/export_info.hpp"
#include "ringloop/py/ref.hpp"

namespace ringloop::py {

class error : public std::exception {
  public:
    // Takes the exception that is set (SystemError if code of others has set none). GIL.
    [[nodiscard]] static error take() noexcept {
        error made;
        if (PyErr_Occurred() == nullptr)
            PyErr_SetString(PyExc_SystemError, "a call of Python's failed without an exception");
        bridge::ref exception = bridge::take_exception();
        try {
            made.value_ = std::make_shared<ref>(ref::steal(exception.get()));
            static_cast<void>(exception.release());
            made.describe();
        } catch (...) {  // no memory: known by its text, "a Python exception"
            PyErr_Clear();
        }
        return made;
    }

    // The exception, borrowed; null where there was no memory to keep it.
    [[nodiscard]] PyObject* value() const noexcept { return value_ ? value_->get() : nullptr; }
    [[nodiscard]] bool matches(PyObject* type) const noexcept {  // GIL
        return value() != nullptr && PyErr_GivenExceptionMatches(value(), type) != 0;
    }
    // Sets the exception again, the same object. GIL.
    void restore() const noexcept {
        if (value() != nullptr)
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value())), value());
        else
            PyErr_NoMemory();
    }
    // "ValueError: text".
    [[nodiscard]] const char* what() const noexcept override {
        return text_ ? text_->c_str() : "a Python exception";
    }

  private:
    error() noexcept = default;
    void describe() {
        const ref text = ref::steal(PyObject_Str(value()));
        const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
        PyErr_Clear();
        text_ = std::make_shared<const std::string>(std::string(Py_TYPE(value())->tp_name) + ": " +
                                                    (words != nullptr ? words : "?"));
    }
    std::shared_ptr<const ref> value_;
    std::shared_ptr<const std::string> text_;
};

namespace detail {

// Adds "native: NAME" to the exception that is set, and NAME to its native_frames.
inline void note_frame(const char* name) noexcept {
    bridge::ref exception = bridge::take_exception();
    if (!exception) return;
    const ref note = ref::steal(PyUnicode_FromFormat("native: %s", name));
    const ref added =
        note ? ref::steal(PyObject_CallMethod(exception.get(), "add_note", "O", note.get()))
             : ref();
    PyErr_Clear();
    ref frames = ref::steal(PyObject_GetAttrString(exception.get(), "native_frames"));
    if (!frames) {
        PyErr_Clear();
        frames = ref::steal(PyList_New(0));
    }
    const ref word = ref::steal(PyUnicode_FromString(name));
    if (frames && word && PyList_Check(frames.get()) &&
        PyList_Append(frames.get(), word.get()) == 0)
        static_cast<void>(PyObject_SetAttrString(exception.get(), "native_frames", frames.get()));
    PyErr_Clear();  // an exception without attributes of its own goes without
    bridge::restore_exception(std::move(exception));
}

// The binding tool's own table, and its users': true where it has set an exception. What it does
// not know stays in `failure`, which a translator may have made another of. Null: there is none.
using translator = bool (*)(std::exception_ptr& failure) noexcept;

// Sets it again if it came from Python: false otherwise.
inline bool restore(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const error& from_python) {
        from_python.restore();
        return true;
    } catch (...) {
        return false;
    }
}

// The exception for a native one alone, without what it was thrown for.
inline void raise_one(std::exception_ptr failure, translator translate) noexcept {
    if (translate != nullptr && translate(failure)) return;
    if (!restore(failure)) runtime().raise_from(failure);  // also what a translator made of it
}

[[nodiscard]] inline std::exception_ptr reason_of(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const std::nested_exception& with_reason) {
        return with_reason.nested_ptr();
    } catch (...) {
        return nullptr;
    }
}

inline constexpr int reasons_max = 64;  // of reasons of reasons: a chain has an end

// Whether `sought` is `exception`, or one of its causes.
[[nodiscard]] inline bool leads_to(PyObject* exception, PyObject* sought) noexcept {
    ref each = ref::share(exception);
    for (int i = 0; each && i < reasons_max; ++i) {
        if (each.get() == sought) return true;
        each = ref::steal(PyException_GetCause(each.get()));
    }
    return static_cast<bool>(each);
}

// What it was thrown for becomes its __cause__, by the same table. An exception of Python's that
// has a cause keeps it.
inline void raise_with_reasons(const std::exception_ptr& failure, translator translate,
                               int depth) noexcept {
    bridge::ref reason;
    if (const std::exception_ptr nested = reason_of(failure); nested && depth < reasons_max) {
        raise_with_reasons(nested, translate, depth + 1);
        reason = bridge::take_exception();
    }
    const bool is_pythons = restore(failure);
    if (!is_pythons) raise_one(failure, translate);
    if (!reason) return;
    bridge::ref raised = bridge::take_exception();
    const ref before = is_pythons ? ref::steal(PyException_GetCause(raised.get())) : ref();
    if (!before && !leads_to(reason.get(), raised.get()))
        PyException_SetCause(raised.get(), reason.release());
    bridge::restore_exception(std::move(raised));
}

// Sets the Python exception for `failure`, with the native coroutine's name. GIL.
inline void raise(const std::exception_ptr& failure, const export_info& about,
                  translator translate) noexcept {
    raise_with_reasons(failure, translate, 0);
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) != 0)
        note_frame(about.name);
}

}  // namespace detail
}  // namespace ringloop::py
