// What a coroutine may take from Python, decided at compile time.
//
// A coroutine goes on after the call that made it has returned. A parameter that refers to
// something of the caller's would then be read after its end; so references, pointers and views are
// refused, also inside containers, and so are Python objects under names that do not say how they
// are dropped without the GIL (py::ref does).
//
// Thread: none; types only.
#pragma once

#include <Python.h>

#include <functional>
#include <initializer_list>
#include <ranges>
#include <type_traits>
#include <utility>

#include "ringloop/py/ref.hpp"

namespace ringloop::py::detail {

// A class of a binding tool that holds a PyObject* and drops it under the GIL only: it converts to
// one by ptr().
template <class T>
concept python_wrapper = std::is_class_v<T> && requires(const T& value) {
    { value.ptr() } -> std::convertible_to<PyObject*>;
    value.inc_ref();
};

template <class T>
inline constexpr bool refers = std::is_reference_v<T> || std::is_pointer_v<T> ||
                               std::is_member_pointer_v<T> || python_wrapper<T>;
template <class T>
requires std::is_class_v<T>
inline constexpr bool refers<T> = std::ranges::enable_view<T> || python_wrapper<T>;
template <class T>
inline constexpr bool refers<std::reference_wrapper<T>> = true;
template <class T>
inline constexpr bool refers<std::initializer_list<T>> = true;
template <>
inline constexpr bool refers<borrow> = true;

template <class T>
inline constexpr bool dangles = refers<T>;
template <class T>
inline constexpr bool dangles<const T> = dangles<T>;
// Containers: of what they hold.
template <template <class...> class Holder, class... Held>
inline constexpr bool dangles<Holder<Held...>> = refers<Holder<Held...>> || (dangles<Held> || ...);
template <template <class, std::size_t> class Array, class Held, std::size_t N>
inline constexpr bool dangles<Array<Held, N>> = refers<Array<Held, N>> || dangles<Held>;
// What is called with a reference or a pointer owns none.
template <class Signature>
inline constexpr bool dangles<std::function<Signature>> = false;
template <class T>
inline constexpr bool dangles<std::char_traits<T>> = false;

template <class... Parameters>
consteval void refuse_raw_objects() {
    static_assert(
        (!std::is_same_v<Parameters, PyObject*> && ...),
        "ringloop: a raw PyObject* says nothing about who owns it: take ringloop::py::ref");
}

// Refuses, naming the rule. One assertion a reason, so that the message is the right one.
template <class... Parameters>
consteval void refuse_what_dangles() {
    static_assert((!std::is_reference_v<Parameters> && ...),
                  "ringloop: a coroutine's parameter by reference: what it refers to may be gone "
                  "when the coroutine goes on; take it by value");
    refuse_raw_objects<Parameters...>();
    static_assert((!std::is_same_v<Parameters, borrow> && ...),
                  "ringloop: a borrow ends with the call, a coroutine goes on: take "
                  "ringloop::py::ref");
    static_assert(
        ((std::is_same_v<Parameters, PyObject*> || !std::is_pointer_v<Parameters>)&&...),
        "ringloop: a coroutine's parameter by pointer: what it points to may be gone when "
        "the coroutine goes on; take it by value, or hold it in a std::shared_ptr");
    static_assert(
        (!python_wrapper<Parameters> && ...),
        "ringloop: an object of the binding tool's must be dropped under the GIL, which a "
        "coroutine need not hold when it ends: take ringloop::py::ref");
    static_assert(
        ((std::is_reference_v<Parameters> || std::is_pointer_v<Parameters> ||
          python_wrapper<Parameters> || std::is_same_v<Parameters, borrow> ||
          !dangles<Parameters>)&&...),
        "ringloop: a view (string_view, span, …), or a container of views or pointers, as a "
        "coroutine's parameter: what it looks at may be gone when the coroutine goes on; take "
        "std::string, std::vector or another owner");
}

template <class Result>
consteval void refuse_result() {
    static_assert(!std::is_reference_v<Result> && !std::is_pointer_v<Result>,
                  "ringloop: a task that is awaited from Python returns a value");
    static_assert(!python_wrapper<Result>,
                  "ringloop: an object of the binding tool's must be made under the GIL, which a "
                  "coroutine need not hold when it ends: return ringloop::py::ref");
    static_assert(std::is_reference_v<Result> || std::is_pointer_v<Result> ||
                      python_wrapper<Result> || !dangles<Result>,
                  "ringloop: a task that is awaited from Python returns an owner, not a view");
}

}  // namespace ringloop::py::detail
