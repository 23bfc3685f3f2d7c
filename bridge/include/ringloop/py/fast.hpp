// py::fast: plain functions and coroutines exported at the cost of a C call, for hot calls.
//
//     double sum(std::span<const double> values);
//     rl::py::fast<&sum>(m.ptr(), "sum");
//
// No overloads, names or defaults: arguments by position, exactly as many as there are. Converted
// are bool, integers (OverflowError if one does not fit), float and double, std::string and
// std::string_view (UTF-8), spans over objects with a contiguous buffer of that element type
// (read-only for const elements; held for the call), py::buffer, py::bytes, py::ref, py::borrow; in
// return also void, and task<T> and outcome<T> as awaitables. Views and borrows are for plain
// functions: a coroutine's parameters must not dangle (parameters.hpp). Exceptions: error.hpp.
//
// gil::release as second template argument runs a plain function without the GIL; its arguments
// must then be none of Python's (borrow, ref). Such calls are counted (export_info.hpp); those that
// hold the GIL are not.
// Thread: GIL at the call.
#pragma once

#include <Python.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ringloop/py/buffer.hpp"
#include "ringloop/py/convert.hpp"
#include "ringloop/py/error.hpp"
#include "ringloop/py/parameters.hpp"
#include "ringloop/py/task_source.hpp"

namespace ringloop::py {

namespace detail {

// One argument during a call: read() false with an exception set, then value().
template <class T>
struct fast_argument;

template <>
struct fast_argument<bool> {
    bool read(PyObject* object) noexcept {
        const int truth = PyObject_IsTrue(object);
        held = truth == 1;
        return truth >= 0;
    }
    [[nodiscard]] bool value() const noexcept { return held; }
    bool held = false;
};

template <class T>
requires std::integral<T>
struct fast_argument<T> {
    bool read(PyObject* object) noexcept {
        if constexpr (std::is_signed_v<T>) {
            const long long wide = PyLong_AsLongLong(object);
            if (wide == -1 && PyErr_Occurred() != nullptr) return false;
            held = static_cast<T>(wide);
            if (static_cast<long long>(held) == wide) return true;
        } else {
            if (!PyLong_Check(object)) {
                PyErr_Format(PyExc_TypeError, "an integer is required, not %s",
                             Py_TYPE(object)->tp_name);
                return false;
            }
            const unsigned long long wide = PyLong_AsUnsignedLongLong(object);
            if (PyErr_Occurred() != nullptr) return false;
            held = static_cast<T>(wide);
            if (static_cast<unsigned long long>(held) == wide) return true;
        }
        PyErr_Format(PyExc_OverflowError, "%R does not fit into %d bits", object,
                     std::numeric_limits<T>::digits + (std::is_signed_v<T> ? 1 : 0));
        return false;
    }
    [[nodiscard]] T value() const noexcept { return held; }
    T held = 0;
};

template <class T>
requires std::floating_point<T>
struct fast_argument<T> {
    bool read(PyObject* object) noexcept {
        const double wide = PyFloat_AsDouble(object);
        held = static_cast<T>(wide);
        return wide != -1.0 || PyErr_Occurred() == nullptr;
    }
    [[nodiscard]] T value() const noexcept { return held; }
    T held = 0;
};

template <>
struct fast_argument<std::string_view> {
    bool read(PyObject* object) noexcept {
        if (!PyUnicode_Check(object)) {
            PyErr_Format(PyExc_TypeError, "a str is required, not %s", Py_TYPE(object)->tp_name);
            return false;
        }
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(object, &size);
        if (text != nullptr) held = {text, static_cast<std::size_t>(size)};
        return text != nullptr;
    }
    [[nodiscard]] std::string_view value() const noexcept { return held; }
    std::string_view held;
};
template <>
struct fast_argument<std::string> : fast_argument<std::string_view> {
    [[nodiscard]] std::string value() const { return std::string(held); }
};

template <class T>
struct fast_argument<std::span<T>> {
    fast_argument() noexcept = default;
    ~fast_argument() {
        if (view.obj != nullptr) PyBuffer_Release(&view);
    }
    fast_argument(const fast_argument&) = delete;
    fast_argument& operator=(const fast_argument&) = delete;
    bool read(PyObject* object) noexcept {
        const int flags = PyBUF_ND | PyBUF_FORMAT | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
        if (PyObject_GetBuffer(object, &view, flags) < 0) return false;
        if (static_cast<std::size_t>(view.itemsize) == sizeof(T) &&
            format_is<std::remove_const_t<T>>(view.format) && view.ndim <= 1)
            return true;
        PyErr_Format(PyExc_TypeError,
                     "a contiguous one-dimensional buffer of %zu-byte elements of the function's "
                     "type is required, not of format '%s', %zd bytes, %d dimensions",
                     sizeof(T), view.format != nullptr ? view.format : "B", view.itemsize,
                     view.ndim);
        return false;
    }
    [[nodiscard]] std::span<T> value() const noexcept {
        return {static_cast<T*>(view.buf), static_cast<std::size_t>(view.len) / sizeof(T)};
    }
    Py_buffer view{};
};

template <>
struct fast_argument<bytes> {
    bool read(PyObject* object) { return bytes::read(object, held); }
    [[nodiscard]] bytes value() { return std::move(held); }
    bytes held;
};
template <class T>
struct fast_argument<buffer<T>> {
    bool read(PyObject* object) noexcept { return buffer<T>::read(object, held); }
    [[nodiscard]] buffer<T> value() noexcept { return std::move(held); }
    buffer<T> held;
};
template <>
struct fast_argument<ref> {
    bool read(PyObject* object) noexcept {
        held = object;
        return true;
    }
    [[nodiscard]] ref value() const noexcept { return ref::share(held); }
    PyObject* held = nullptr;
};
template <>
struct fast_argument<borrow> {
    bool read(PyObject* object) noexcept {
        held = object;
        return true;
    }
    [[nodiscard]] borrow value() const noexcept { return borrow(held); }
    PyObject* held = nullptr;
};

// A new reference, or null with an exception set.
template <class T>
[[nodiscard]] PyObject* fast_result(T&& value) {
    using plain = std::decay_t<T>;
    if constexpr (std::is_same_v<plain, bool>) {
        return PyBool_FromLong(value);
    } else if constexpr (std::integral<plain> && std::is_signed_v<plain>) {
        return PyLong_FromLongLong(value);
    } else if constexpr (std::integral<plain>) {
        return PyLong_FromUnsignedLongLong(value);
    } else if constexpr (std::floating_point<plain>) {
        return PyFloat_FromDouble(value);
    } else if constexpr (std::is_same_v<plain, bytes>) {
        return value.object();
    } else if constexpr (std::is_same_v<plain, ref>) {
        return value ? value.release() : Py_NewRef(Py_None);
    } else {
        const std::string_view text(value);
        return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    }
}

struct by_fast {
    template <class T>
    static PyObject* value(T&& value) {
        return fast_result(std::forward<T>(value));
    }
    static void raise(const std::exception_ptr& failure, const export_info& about) noexcept {
        detail::raise(failure, about, nullptr);
    }
};

template <class T>
inline constexpr bool makes_task = false;
template <class T>
inline constexpr bool makes_task<task<T>> = true;

// An exported function: its method definition, and what Python calls.
template <auto Function, gil Policy, class Signature = decltype(+Function)>
struct fast_export;
template <auto Function, gil Policy, class Result, class... Parameters>
struct fast_export<Function, Policy, Result (*)(Parameters...)> {
    static_assert((!std::is_same_v<Parameters, PyObject*> && ...) &&
                      !std::is_same_v<Result, PyObject*>,
                  "ringloop: a raw PyObject* says nothing about who owns it: take "
                  "ringloop::py::ref or borrow, return ref");
    static_assert(Policy == gil::hold || ((!std::is_same_v<std::decay_t<Parameters>, ref> &&
                                           !std::is_same_v<std::decay_t<Parameters>, borrow>)&&...),
                  "ringloop: a function that runs without the GIL takes no Python objects");

    static constexpr bool is_coroutine = makes_task<Result> || is_outcome<Result>;
    static inline const export_info* about = nullptr;

    static PyObject* call(PyObject*, PyObject* const* given, Py_ssize_t count) noexcept {
        if (count != static_cast<Py_ssize_t>(sizeof...(Parameters)))
            return PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, not %zd", about->name,
                                sizeof...(Parameters), count);
        try {
            return convert_and_call(given, std::index_sequence_for<Parameters...>());
        } catch (...) {
            detail::raise(ringloop::detail::unhandled(), *about, nullptr);
            return nullptr;
        }
    }

  private:
    template <std::size_t... Index>
    static PyObject* convert_and_call(PyObject* const* given, std::index_sequence<Index...>) {
        std::tuple<fast_argument<std::decay_t<Parameters>>...> arguments;
        if (!(std::get<Index>(arguments).read(given[Index]) && ...)) return nullptr;
        static_cast<void>(given);
        if constexpr (is_outcome<Result>) {
            refuse_result<typename Result::value_type>();
            return await_outcome<by_fast>(*about, Function(std::get<Index>(arguments).value()...),
                                          ref());
        } else if constexpr (makes_task<Result>) {
            refuse_what_dangles<Parameters...>();
            refuse_result<typename Result::value_type>();
            using source = task_source<by_fast, Result (*)(Parameters && ...), Parameters...>;
            auto* work = new (std::nothrow) source(
                *about, [](Parameters&&... values) { return Function(std::move(values)...); },
                std::get<Index>(arguments).value()...);
            return runtime().new_awaitable(work);
        } else if constexpr (std::is_void_v<Result>) {
            run([&] { Function(std::get<Index>(arguments).value()...); });
            return Py_NewRef(Py_None);
        } else {
            return fast_result(
                run([&]() -> Result { return Function(std::get<Index>(arguments).value()...); }));
        }
    }
    template <class Call>
    static decltype(auto) run(Call&& function) {
        if constexpr (Policy == gil::hold) {
            return function();
        } else {
            const released without(*about);
            return function();
        }
    }
    // Without the GIL as long as it lives; counts.
    struct released {
        explicit released(const export_info& counted) noexcept
            : about(counted), begin_ns(monotonic_ns()), thread(PyEval_SaveThread()) {}
        ~released() {
            const std::int64_t end_ns = monotonic_ns();
            PyEval_RestoreThread(thread);
            about.calls.add(1);
            about.released_ns.add(static_cast<std::uint64_t>(end_ns - begin_ns));
            about.waited_ns.add(static_cast<std::uint64_t>(monotonic_ns() - end_ns));
        }
        released(const released&) = delete;
        released& operator=(const released&) = delete;
        const export_info& about;
        std::int64_t begin_ns;
        PyThreadState* thread;
    };
};
template <auto Function, gil Policy, class Result, class... Parameters>
struct fast_export<Function, Policy, Result (*)(Parameters...) noexcept>
    : fast_export<Function, Policy, Result (*)(Parameters...)> {};

}  // namespace detail

// Adds the function to `module` under `name` (kept; each function once). 0, or -1 with an exception
// set. GIL.
template <auto Function, gil Policy = gil::hold>
int fast(PyObject* module, const char* name, const char* doc = nullptr) noexcept {
    using made = detail::fast_export<Function, Policy>;
    if (import_runtime() < 0) return -1;
    try {
        auto* about = new detail::export_info{detail::kept_text(name), Policy};
        auto* definition = new PyMethodDef{about->name, bridge::method(&made::call), METH_FASTCALL,
                                           doc != nullptr ? detail::kept_text(doc) : nullptr};
        made::about = about;
        const ref in = ref::steal(PyModule_GetNameObject(module));
        const ref function =
            in ? ref::steal(PyCFunction_NewEx(definition, nullptr, in.get())) : ref();
        if (!function) return -1;
        about->module = detail::kept_text(PyUnicode_AsUTF8(in.get()));
        if constexpr (made::is_coroutine || Policy != gil::hold) runtime().add_export(*about);
        return PyModule_AddObjectRef(module, name, function.get());
    } catch (...) {
        PyErr_NoMemory();
        return -1;
    }
}

}  // namespace ringloop::py
