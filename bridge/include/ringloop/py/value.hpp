// from_python<T>(), to_python(): values between C++ and Python without a binding tool.
//
// bool (from a bool alone), integers and floats (OverflowError where one does not fit), std::string
// (UTF-8), py::bytes, py::ref, optional (None), pair and tuple (from any sequence of that length),
// vector and other sequence containers and sets (from anything that can be iterated), maps (from a
// dict), as deep as wanted. Other types: by convert<T> of the binding tool, where there is one.
//
// from_python() throws py::error: TypeError, OverflowError, or what Python raised.
// Thread: GIL.
#pragma once

#include <Python.h>

#include <cmath>
#include <concepts>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ringloop/py/convert.hpp"
#include "ringloop/py/error.hpp"
#include "ringloop/py/fast.hpp"

namespace ringloop::py {

template <class T>
[[nodiscard]] T from_python(PyObject* object);
template <class T>
[[nodiscard]] ref to_python(T&& value);

namespace detail {

[[noreturn]] inline void throw_type_error(const char* wanted, PyObject* object) {
    PyErr_Format(PyExc_TypeError, "%s is required, not %s", wanted, Py_TYPE(object)->tp_name);
    throw error::take();
}
// Steals; throws what is set where it is null.
[[nodiscard]] inline ref made(PyObject* object) {
    if (object == nullptr) throw_raised_exception();
    return ref::steal(object);
}

template <class T>
concept is_plain = std::is_arithmetic_v<T> || std::same_as<T, std::string> ||
    std::same_as<T, bytes> || std::same_as<T, ref>;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
concept is_tuple = requires {
    std::tuple_size<T>::value;
}
&&!std::ranges::range<T>;

template <class T>
concept is_map = requires(T& all, typename T::key_type key, typename T::mapped_type value) {
    all.emplace(std::move(key), std::move(value));
};

template <class T>
concept is_container = std::ranges::range<T> && requires(T& all, typename T::value_type value) {
    all.insert(all.end(), std::move(value));
};

template <class T>
[[nodiscard]] T read_plain(PyObject* object) {
    if constexpr (std::same_as<T, bool>) {
        if (!PyBool_Check(object)) throw_type_error("a bool", object);
        return object == Py_True;
    } else {
        fast_argument<T> argument;
        if (!argument.read(object)) throw error::take();
        if constexpr (std::floating_point<T>) {
            if (std::isinf(argument.value()) && std::isfinite(PyFloat_AsDouble(object))) {
                PyErr_Format(PyExc_OverflowError, "%R does not fit into a float", object);
                throw error::take();
            }
        }
        return argument.value();
    }
}

template <class T>
[[nodiscard]] T read_tuple(PyObject* object) {
    constexpr auto size = static_cast<Py_ssize_t>(std::tuple_size_v<T>);
    const ref items = made(PySequence_Fast(object, "a sequence is required"));
    if (PySequence_Fast_GET_SIZE(items.get()) != size) {
        PyErr_Format(PyExc_ValueError, "a sequence of %zd is required, not of %zd", size,
                     PySequence_Fast_GET_SIZE(items.get()));
        throw error::take();
    }
    PyObject** const all = PySequence_Fast_ITEMS(items.get());
    return [all]<std::size_t... I>(std::index_sequence<I...>) {
        return T{from_python<std::tuple_element_t<I, T>>(all[I])...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
}

template <class T>
[[nodiscard]] T read_map(PyObject* object) {
    if (!PyDict_Check(object)) throw_type_error("a dict", object);
    T all;
    // Of a copy of its items: converting may run Python code that changes the dict.
    const ref items = made(PyDict_Items(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        PyObject* const pair = PyList_GET_ITEM(items.get(), i);
        all.emplace(from_python<typename T::key_type>(PyTuple_GET_ITEM(pair, 0)),
                    from_python<typename T::mapped_type>(PyTuple_GET_ITEM(pair, 1)));
    }
    return all;
}

template <class T>
[[nodiscard]] T read_container(PyObject* object) {
    if (PyUnicode_Check(object)) throw_type_error("a list", object);  // not its characters
    T all;
    const ref iterator = made(PyObject_GetIter(object));
    while (const ref item = ref::steal(PyIter_Next(iterator.get())))
        all.insert(all.end(), from_python<typename T::value_type>(item.get()));
    if (PyErr_Occurred() != nullptr) throw_raised_exception();
    return all;
}

template <class T>
[[nodiscard]] ref make_tuple(T&& value) {
    using plain = std::decay_t<T>;
    ref tuple = made(PyTuple_New(static_cast<Py_ssize_t>(std::tuple_size_v<plain>)));
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(I),
                          to_python(std::get<I>(std::forward<T>(value))).release()),
         ...);
    }
    (std::make_index_sequence<std::tuple_size_v<plain>>());
    return tuple;
}

template <class T>
[[nodiscard]] ref make_map(T&& value) {
    ref dict = made(PyDict_New());
    for (auto& [key, mapped] : value) {
        const ref name = to_python(key), item = to_python(mapped);
        if (PyDict_SetItem(dict.get(), name.get(), item.get()) < 0) throw error::take();
    }
    return dict;
}

template <class T>
[[nodiscard]] ref make_container(T&& value) {
    constexpr bool is_set = requires {
        typename std::decay_t<T>::key_type;
    };
    ref all = made(is_set ? PySet_New(nullptr) : PyList_New(0));
    for (auto&& each : value) {
        ref item;
        if constexpr (std::is_copy_constructible_v<std::ranges::range_value_t<T>>)
            item = to_python(std::ranges::range_value_t<T>(each));
        else
            item = to_python(std::move(each));
        const int result =
            is_set ? PySet_Add(all.get(), item.get()) : PyList_Append(all.get(), item.get());
        if (result < 0) throw error::take();
    }
    return all;
}

}  // namespace detail

template <class T>
T from_python(PyObject* object) {
    if constexpr (detail::is_plain<T>) {
        return detail::read_plain<T>(object);
    } else if constexpr (detail::is_own<T>) {
        T value;
        if (!detail::own<T>::read(object, value)) {
            if (PyErr_Occurred() != nullptr) throw error::take();
            detail::throw_type_error(detail::own<T>::name, object);
        }
        return value;
    } else if constexpr (detail::is_optional<T>) {
        if (object == Py_None) return std::nullopt;
        return from_python<typename T::value_type>(object);
    } else if constexpr (detail::is_tuple<T>) {
        return detail::read_tuple<T>(object);
    } else if constexpr (detail::is_map<T>) {
        return detail::read_map<T>(object);
    } else if constexpr (detail::is_container<T>) {
        return detail::read_container<T>(object);
    } else {
        return convert<T>::from(object);
    }
}

template <class T>
ref to_python(T&& value) {
    using plain = std::decay_t<T>;
    if constexpr (std::same_as<plain, std::nullptr_t> || std::same_as<plain, std::nullopt_t>) {
        return ref::share(Py_None);
    } else if constexpr (std::same_as<plain, ref>) {
        return value ? value.share() : ref::share(Py_None);
    } else if constexpr (std::is_arithmetic_v<plain> || std::same_as<plain, bytes> ||
                         std::convertible_to<T, std::string_view>) {
        return detail::made(detail::fast_result(std::forward<T>(value)));
    } else if constexpr (detail::is_own<plain>) {
        return detail::made(detail::own<plain>::give(std::forward<T>(value)));
    } else if constexpr (detail::is_optional<plain>) {
        return value ? to_python(*std::forward<T>(value)) : ref::share(Py_None);
    } else if constexpr (detail::is_tuple<plain>) {
        return detail::make_tuple(std::forward<T>(value));
    } else if constexpr (detail::is_map<plain>) {
        return detail::make_map(std::forward<T>(value));
    } else if constexpr (detail::is_container<plain>) {
        return detail::make_container(std::forward<T>(value));
    } else {
        return detail::made(convert<plain>::to(plain(std::forward<T>(value))));
    }
}

}  // namespace ringloop::py
