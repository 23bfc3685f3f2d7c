// py::error: a Python exception in native code, and how native exceptions become Python's.
//
// What await(), function::call() and object throw when Python raised. It keeps the exception object
// itself: type, value, traceback, cause; when it leaves native code again, Python gets the same
// object. raise() is the way back, for every exception: the table is in docs/bridge.md.
//
// A native exception that went through Python and comes back is thrown as itself, not as an error:
// the same object. Where Python raised another one for it, error::native() of the cause has it.
//
// Thread: py::error may be moved, copied and destroyed anywhere, and its words asked for anywhere
// (they take the GIL); raise() with the GIL.
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/py/export_info.hpp"
#include "ringloop/py/gil_scope.hpp"
#include "ringloop/py/ref.hpp"

namespace ringloop::py {

class error : public std::exception {
  public:
    // Takes the exception that is set (SystemError if code of others has set none). GIL.
    [[nodiscard]] static error take() noexcept {
        if (PyErr_Occurred() == nullptr)
            PyErr_SetString(PyExc_SystemError, "a call of Python's failed without an exception");
        return error(ref::steal(bridge::take_exception().release()));
    }

    // A new one, for native code to throw: error::of(PyExc_NotImplementedError, "…"). `type` is a
    // class of exceptions, called with the text. Takes the GIL.
    [[nodiscard]] static error of(PyObject* type, std::string_view text) {
        const gil_scope gil;
        const ref words = ref::steal(PyUnicode_DecodeUTF8(
            text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
        if (words) PyErr_SetObject(type, words.get());
        return take();
    }

    // The exception, borrowed; null where there was no memory to keep it.
    [[nodiscard]] PyObject* value() const noexcept { return value_ ? value_->get() : nullptr; }
    [[nodiscard]] bool matches(PyObject* type) const noexcept {  // GIL
        return value() != nullptr && PyErr_GivenExceptionMatches(value(), type) != 0;
    }
    // Its class, borrowed; null like value().
    [[nodiscard]] PyObject* type() const noexcept {
        return value() != nullptr ? reinterpret_cast<PyObject*>(Py_TYPE(value())) : nullptr;
    }
    // "ValueError", "json.decoder.JSONDecodeError"; empty where there is no value.
    [[nodiscard]] std::string type_name() const;
    // The traceback object; empty where there is none.
    [[nodiscard]] ref traceback() const {
        const gil_scope gil;
        return ref::steal(value() != nullptr ? PyException_GetTraceback(value()) : nullptr);
    }
    // What Python would print, causes included.
    [[nodiscard]] std::string formatted() const;
    // What it was raised for (`raise … from …`), or was being handled.
    [[nodiscard]] std::optional<error> cause() const {
        const gil_scope gil;
        ref reason = ref::steal(value() != nullptr ? PyException_GetCause(value()) : nullptr);
        if (!reason && value() != nullptr) reason = ref::steal(PyException_GetContext(value()));
        if (!reason) return std::nullopt;
        return error(std::move(reason));
    }
    // The native exception that it stands for; null: it is Python's own.
    [[nodiscard]] std::exception_ptr native() const noexcept {
        if (value() == nullptr) return nullptr;
        try {
            const gil_scope gil;
            return runtime().native_of(value());
        } catch (const std::exception&) {  // the interpreter has ended
            return nullptr;
        }
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
    explicit error(ref raised) noexcept {
        try {
            value_ = std::make_shared<ref>(std::move(raised));
            describe();
        } catch (...) {  // no memory: known by its text, "a Python exception"
            PyErr_Clear();
        }
    }
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

inline std::string error::type_name() const {
    if (value() == nullptr) return {};
    const gil_scope gil;
    const ref module = ref::steal(PyObject_GetAttrString(type(), "__module__"));
    const ref name = ref::steal(PyObject_GetAttrString(type(), "__qualname__"));
    const char* const of =
        module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8(module.get()) : nullptr;
    const char* const words = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
    std::string made;
    if (of != nullptr && std::string_view(of) != "builtins") made = std::string(of) + ".";
    if (words != nullptr) made += words;
    PyErr_Clear();
    return made;
}

inline std::string error::formatted() const {
    if (value() == nullptr) return what();
    const gil_scope gil;
    const ref module = ref::steal(PyImport_ImportModule("traceback"));
    const ref lines =
        module ? ref::steal(PyObject_CallMethod(module.get(), "format_exception", "O", value()))
               : ref();
    const ref nothing = lines ? ref::steal(PyUnicode_FromString("")) : ref();
    const ref joined = nothing ? ref::steal(PyUnicode_Join(nothing.get(), lines.get())) : ref();
    const char* const text = joined ? PyUnicode_AsUTF8(joined.get()) : nullptr;
    PyErr_Clear();
    return text != nullptr ? text : what();
}

namespace detail {

// Throws for the exception that is set: a native one that Python let through as itself. GIL.
[[noreturn]] inline void throw_raised_exception() {
    error raised = error::take();
    if (const std::exception_ptr native = raised.native()) std::rethrow_exception(native);
    throw raised;
}

// Adds "native: NAME" to the exception that is set, and NAME to its native_frames.
// `native` (may be null) is what it stands for.
inline void note_frame(const char* name, const std::exception_ptr& native) noexcept {
    bridge::ref exception = bridge::take_exception();
    if (!exception) return;
    if (native) runtime().keep_native(exception.get(), native);
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

// What a binding tool's own table did with an exception: not known to it, set one for it, or set
// the one of Python's that it is.
enum class translated : unsigned char { no, yes, was_python };

// The binding tool's own table, and its users'. What it does not know stays in `failure`, which a
// translator may have made another of. Null: there is none.
using translator = translated (*)(std::exception_ptr& failure) noexcept;

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

// The exception for a native one alone, without what it was thrown for. True: it was Python's.
inline bool raise_one(std::exception_ptr failure, translator translate) noexcept {
    const translated how = translate != nullptr ? translate(failure) : translated::no;
    if (how != translated::no) return how == translated::was_python;
    if (restore(failure)) return true;  // what a translator made of it
    runtime().raise_from(failure);
    return false;
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
// has a cause keeps it. True: `failure`, or what it was thrown for, was Python's: kept by an
// exception of Python's, it would keep that one, in a circle that no collector sees.
inline bool raise_with_reasons(const std::exception_ptr& failure, translator translate,
                               int depth) noexcept {
    bridge::ref reason;
    bool has_pythons = false;
    if (const std::exception_ptr nested = reason_of(failure); nested && depth < reasons_max) {
        has_pythons = raise_with_reasons(nested, translate, depth + 1);
        reason = bridge::take_exception();
    }
    const bool is_error = restore(failure);
    if (is_error || raise_one(failure, translate)) has_pythons = true;
    if (!reason) return has_pythons;
    bridge::ref raised = bridge::take_exception();
    const ref before = is_error ? ref::steal(PyException_GetCause(raised.get())) : ref();
    if (!before && !leads_to(reason.get(), raised.get()))
        PyException_SetCause(raised.get(), reason.release());
    bridge::restore_exception(std::move(raised));
    return has_pythons;
}

// Sets the Python exception for `failure`, with the native coroutine's name. GIL.
inline void raise(const std::exception_ptr& failure, const export_info& about,
                  translator translate) noexcept {
    const bool has_pythons = raise_with_reasons(failure, translate, 0);
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) != 0)
        note_frame(about.name, has_pythons ? nullptr : failure);
}

}  // namespace detail
}  // namespace ringloop::py
