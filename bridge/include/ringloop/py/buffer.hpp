// py::buffer<T>: the memory of an array of Python's (numpy, array.array, memoryview, bytes …) in a
// coroutine, without a copy.
//
//     rl::task<double> mean(rl::py::buffer<const double> all) {
//         co_return co_await rl::offload([&] { return sum_of(all.span()) / all.size(); });
//     }
//
// Its elements are of T and lie in one piece, in C's order; TypeError at the call otherwise.
// Without const it must be writable. It is held, and cannot be resized, as long as the buffer
// lives. Who else writes to it meanwhile is the caller's business, as with every array. In return
// it becomes a memoryview of the same memory.
//
// Thread: span() and its kin any, without the GIL; it may be moved and destroyed anywhere.
#pragma once

#include <Python.h>

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ringloop/py/convert.hpp"
#include "ringloop/py/ref.hpp"

namespace ringloop::py {

namespace detail {

template <class T>
[[nodiscard]] bool format_is(const char* format) noexcept {
    if (format == nullptr) return sizeof(T) == 1;  // plain bytes
    while (*format == '@' || *format == '=' || *format == '<') ++format;
    const std::string_view code(format);
    if (code.size() != 1) return false;
    if constexpr (std::is_same_v<T, std::byte>) {
        return code == "B" || code == "b" || code == "c";
    } else if constexpr (std::is_same_v<T, bool>) {
        return code == "?";
    } else if constexpr (std::floating_point<T>) {
        return code == (sizeof(T) == 8 ? "d" : "f");
    } else {
        const std::string_view signed_codes = "bhilqn", unsigned_codes = "BHILQN";
        return (std::is_signed_v<T> ? signed_codes : unsigned_codes).find(code[0]) !=
               std::string_view::npos;
    }
}

// How signatures name a buffer of T.
template <class T>
struct element;
template <class T>
requires std::floating_point<T> &&(sizeof(T) == 4) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'float32']";
};
template <class T>
requires std::floating_point<T> &&(sizeof(T) == 8) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'float64']";
};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 1) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'int8']";
};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 2) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'int16']";
};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 4) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'int32']";
};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 8) struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'int64']";
};
template <class T>
requires std::unsigned_integral<T> &&(sizeof(T) == 1) && (!std::same_as<T, bool>)struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'uint8']";
};
template <class T>
requires std::unsigned_integral<T> &&(sizeof(T) == 2) && (!std::same_as<T, bool>)struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'uint16']";
};
template <class T>
requires std::unsigned_integral<T> &&(sizeof(T) == 4) && (!std::same_as<T, bool>)struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'uint32']";
};
template <class T>
requires std::unsigned_integral<T> &&(sizeof(T) == 8) && (!std::same_as<T, bool>)struct element<T> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'uint64']";
};
template <>
struct element<bool> {
    static constexpr char name[] = "typing.Annotated[collections.abc.Buffer, 'bool']";
};
template <>
struct element<std::byte> {
    static constexpr char name[] = "collections.abc.Buffer";
};

}  // namespace detail

template <class T>
class buffer {
  public:
    buffer() noexcept = default;

    // All elements, also those of an array of several dimensions.
    [[nodiscard]] std::span<T> span() const noexcept { return elements_; }
    [[nodiscard]] T* data() const noexcept { return elements_.data(); }
    [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }
    // The length of each dimension; empty for a single number.
    [[nodiscard]] std::span<const Py_ssize_t> shape() const noexcept { return shape_; }

    int traverse(visitproc visit, void* arg) const noexcept { return view_.traverse(visit, arg); }

    // False with an exception set. GIL.
    [[nodiscard]] static bool read(PyObject* object, buffer& into) noexcept {
        ref view = ref::steal(PyMemoryView_FromObject(object));
        if (!view) return false;
        const Py_buffer& memory = *PyMemoryView_GET_BUFFER(view.get());
        if (static_cast<std::size_t>(memory.itemsize) != sizeof(T) ||
            !detail::format_is<std::remove_const_t<T>>(memory.format) ||
            PyBuffer_IsContiguous(&memory, 'C') == 0 ||
            (!std::is_const_v<T> && memory.readonly != 0)) {
            PyErr_Format(PyExc_TypeError,
                         "a %sbuffer in one piece of %zu-byte elements of the function's type is "
                         "required, not one of format '%s', %zd bytes, %s, %s",
                         std::is_const_v<T> ? "" : "writable ", sizeof(T),
                         memory.format != nullptr ? memory.format : "B", memory.itemsize,
                         PyBuffer_IsContiguous(&memory, 'C') != 0 ? "in one piece" : "with gaps",
                         memory.readonly != 0 ? "read-only" : "writable");
            return false;
        }
        into.elements_ = {static_cast<T*>(memory.buf),
                          static_cast<std::size_t>(memory.len) / sizeof(T)};
        into.shape_ = {memory.shape,
                       static_cast<std::size_t>(memory.shape == nullptr ? 0 : memory.ndim)};
        into.view_ = std::move(view);
        return true;
    }
    // A new reference. GIL.
    [[nodiscard]] PyObject* object() && noexcept {
        elements_ = {};
        shape_ = {};
        return view_ ? view_.release() : Py_NewRef(Py_None);
    }

  private:
    ref view_;
    std::span<T> elements_;
    std::span<const Py_ssize_t> shape_;
};

template <class T>
struct detail::own<buffer<T>> {
    static constexpr const auto& name = element<std::remove_const_t<T>>::name;
    static bool read(PyObject* object, buffer<T>& into) noexcept {
        if (PyObject_CheckBuffer(object) != 0 && buffer<T>::read(object, into)) return true;
        PyErr_Clear();  // another overload may take it
        return false;
    }
    static PyObject* give(buffer<T>&& value) noexcept { return std::move(value).object(); }
};

}  // namespace ringloop::py
