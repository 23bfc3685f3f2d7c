// py::object: a Python object in the hands of native code that hosts Python.
//
//     py::object json = python.import("json");
//     auto text = json.call("dumps", numbers, py::named("indent", 2)).as<std::string>();
//     int first = parsed["items"][0].as<int>();
//
// Every member takes the GIL itself, for as long as it takes; it runs Python code where Python
// would. Values are converted as value.hpp says. What Python raises is thrown as py::error, or as
// the native exception that it stands for (error.hpp).
//
// Lifetime: owns a reference; an empty object may only be assigned to. It may outlive the
// interpreter: then its members throw interpreter_ended, and its end does nothing.
// Thread: any; one object from one thread at a time, as every value.
#pragma once

#include <Python.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "ringloop/py/gil_scope.hpp"
#include "ringloop/py/value.hpp"

namespace ringloop::py {

// An argument by its name.
template <class T>
struct named_value {
    const char* name;
    T value;
};
template <class T>
[[nodiscard]] named_value<T> named(const char* name, T value) {
    return {name, std::move(value)};
}

namespace detail {
template <class T>
inline constexpr bool is_named = false;
template <class T>
inline constexpr bool is_named<named_value<T>> = true;

// The arguments of a call. GIL.
struct call_arguments {
    ref positional;
    ref by_name;

    template <class... T>
    explicit call_arguments(T&&... given)
        : positional(made(PyTuple_New((0 + ... + (is_named<std::decay_t<T>> ? 0 : 1))))) {
        Py_ssize_t at = 0;
        (add(at, std::forward<T>(given)), ...);
        static_cast<void>(at);
    }

  private:
    template <class T>
    void add(Py_ssize_t& at, T&& value) {
        if constexpr (is_named<std::decay_t<T>>) {
            if (!by_name) by_name = made(PyDict_New());
            const ref item = to_python(std::forward<T>(value).value);
            if (PyDict_SetItemString(by_name.get(), value.name, item.get()) < 0)
                throw error::take();
        } else {
            PyTuple_SET_ITEM(positional.get(), at++, to_python(std::forward<T>(value)).release());
        }
    }
};
}  // namespace detail

class object {
  public:
    object() noexcept = default;
    explicit object(ref held) noexcept : held_(std::move(held)) {}
    object(object&&) noexcept = default;
    object& operator=(object&&) noexcept = default;
    object(const object& other) : held_(other.share()) {}
    object& operator=(const object& other) {
        held_ = other.share();
        return *this;
    }
    ~object() = default;

    explicit operator bool() const noexcept { return static_cast<bool>(held_); }  // not empty
    [[nodiscard]] PyObject* get() const noexcept { return held_.get(); }          // borrowed
    [[nodiscard]] ref share() const {
        if (!held_) return {};
        const gil_scope gil;
        return held_.share();
    }
    [[nodiscard]] ref release() noexcept { return std::move(held_); }

    [[nodiscard]] object attr(const char* name) const {
        const gil_scope gil;
        return object(detail::made(PyObject_GetAttrString(held(), name)));
    }
    [[nodiscard]] bool has_attr(const char* name) const {
        const gil_scope gil;
        const ref found = ref::steal(PyObject_GetAttrString(held(), name));
        if (!found && PyErr_ExceptionMatches(PyExc_AttributeError) == 0)
            detail::throw_raised_exception();
        PyErr_Clear();
        return static_cast<bool>(found);
    }
    template <class T>
    void set_attr(const char* name, T&& value) const {
        const gil_scope gil;
        const ref item = to_python(std::forward<T>(value));
        if (PyObject_SetAttrString(held(), name, item.get()) < 0) detail::throw_raised_exception();
    }

    // this[key]: the element of a sequence, a mapping, anything with __getitem__.
    template <class Key>
    [[nodiscard]] object operator[](Key&& key) const {
        const gil_scope gil;
        const ref at = to_python(std::forward<Key>(key));
        return object(detail::made(PyObject_GetItem(held(), at.get())));
    }
    template <class Key, class T>
    void set_item(Key&& key, T&& value) const {
        const gil_scope gil;
        const ref at = to_python(std::forward<Key>(key)), item = to_python(std::forward<T>(value));
        if (PyObject_SetItem(held(), at.get(), item.get()) < 0) detail::throw_raised_exception();
    }
    [[nodiscard]] std::size_t size() const {
        const gil_scope gil;
        const Py_ssize_t count = PyObject_Size(held());
        if (count < 0) detail::throw_raised_exception();
        return static_cast<std::size_t>(count);
    }

    // this.name(arguments…), and this(arguments…); named() gives one by its name.
    template <class... T>
    object call(const char* name, T&&... arguments) const {
        const gil_scope gil;
        const ref function = detail::made(PyObject_GetAttrString(held(), name));
        return call_with(function.get(), std::forward<T>(arguments)...);
    }
    template <class... T>
    object operator()(T&&... arguments) const {
        const gil_scope gil;
        return call_with(held(), std::forward<T>(arguments)...);
    }

    template <class T>
    [[nodiscard]] T as() const {
        const gil_scope gil;
        return from_python<T>(held());
    }
    [[nodiscard]] bool is_none() const noexcept { return held_.get() == Py_None; }
    [[nodiscard]] bool is(const object& other) const noexcept { return get() == other.get(); }
    [[nodiscard]] bool truth() const {
        const gil_scope gil;
        const int answer = PyObject_IsTrue(held());
        if (answer < 0) detail::throw_raised_exception();
        return answer != 0;
    }
    [[nodiscard]] std::string str() const { return text(&PyObject_Str); }
    [[nodiscard]] std::string repr() const { return text(&PyObject_Repr); }

    int traverse(visitproc visit, void* arg) const noexcept { return held_.traverse(visit, arg); }

  private:
    [[nodiscard]] PyObject* held() const {
        if (!held_) throw std::logic_error("ringloop::py::object: this one is empty");
        return held_.get();
    }
    [[nodiscard]] std::string text(PyObject* (*words)(PyObject*)) const {
        const gil_scope gil;
        return from_python<std::string>(detail::made(detail::run_python(words, held())).get());
    }
    template <class... T>
    static object call_with(PyObject* function, T&&... arguments) {
        const detail::call_arguments all(std::forward<T>(arguments)...);
        return object(detail::made(
            detail::run_python(&PyObject_Call, function, all.positional.get(), all.by_name.get())));
    }
    ref held_;
};

template <>
struct detail::own<object> {
    static constexpr char name[] = "object";
    static bool read(PyObject* from, object& into) noexcept {
        into = object(ref::share(from));
        return true;
    }
    static PyObject* give(const object& value) noexcept {
        return Py_NewRef(value ? value.get() : Py_None);
    }
};

}  // namespace ringloop::py
