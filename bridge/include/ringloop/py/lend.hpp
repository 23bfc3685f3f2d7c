// lend(): native memory in Python's hands, without a copy.
//
//     auto frame = std::make_shared<std::vector<std::uint8_t>>(1920 * 1080);
//     script.call("blur", py::lend(frame, 1080, 1920));
//
// Python gets a memoryview of that shape, which numpy, struct, files, sockets and parameters of
// py::buffer<T> take. Elements are bool, numbers or std::byte; those that are const it cannot write
// to. The way back is py::buffer<T>, or as<py::buffer<T>>(), which does not copy either.
//
// Lifetime: the owner is kept until the last view, slice or array of the memory is gone, and ends
// with the GIL held; after the interpreter it is never given back. The elements must not move
// meanwhile: a vector that is lent is not resized. Who writes when is the program's business.
// Thread: any; takes the GIL. Throws std::invalid_argument for a shape of another size.
#pragma once

#include <Python.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <ranges>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ringloop/py/object.hpp"

namespace ringloop::py {

namespace detail {

inline constexpr int lent_dimensions_max = 8;

// What struct calls an element, in the machine's own sizes.
template <class T>
[[nodiscard]] constexpr const char* format_of() noexcept {
    if constexpr (std::same_as<T, bool>) {
        return "?";
    } else if constexpr (std::floating_point<T>) {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "py::lend: float and double");
        return sizeof(T) == 4 ? "f" : "d";
    } else if constexpr (std::integral<T> && sizeof(T) > 1) {
        constexpr bool is_signed = std::is_signed_v<T>;
        if constexpr (sizeof(T) == 2) return is_signed ? "h" : "H";
        if constexpr (sizeof(T) == 4) return is_signed ? "i" : "I";
        return is_signed ? "q" : "Q";
    } else if constexpr (std::same_as<T, signed char>) {
        return "b";
    } else {
        static_assert(sizeof(T) == 1, "py::lend: elements are bool, numbers or bytes");
        return "B";
    }
}

struct lent_memory {
    std::shared_ptr<const void> owner;
    void* data = nullptr;
    const char* format = "B";
    Py_ssize_t bytes = 0, item_bytes = 1;
    bool readonly = true;
    int dimensions = 0;
    std::array<Py_ssize_t, lent_dimensions_max> shape{}, strides{};
};

// The object behind the views.
struct lent_object {
    PyObject_HEAD
    lent_memory memory;

    // A new reference to an object of `memory`. GIL.
    [[nodiscard]] static ref make(lent_memory memory) {
        if (type_ == nullptr) type_ = new_type().release();
        auto* const type = reinterpret_cast<PyTypeObject*>(type_);
        auto* const self = reinterpret_cast<lent_object*>(type->tp_alloc(type, 0));
        if (self == nullptr) throw_raised_exception();
        new (&self->memory) lent_memory(std::move(memory));
        return ref::steal(reinterpret_cast<PyObject*>(self));
    }

  private:
    static void dealloc(PyObject* object) {
        PyTypeObject* const type = Py_TYPE(object);
        reinterpret_cast<lent_object*>(object)->memory.~lent_memory();
        type->tp_free(object);
        Py_DECREF(type);
    }
    static int get(PyObject* object, Py_buffer* view, int flags) {
        lent_memory& memory = reinterpret_cast<lent_object*>(object)->memory;
        view->obj = nullptr;
        if ((flags & PyBUF_WRITABLE) != 0 && memory.readonly) {
            PyErr_SetString(PyExc_BufferError, "this native memory was lent to be read only");
            return -1;
        }
        if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && memory.dimensions > 1) {
            PyErr_SetString(PyExc_BufferError, "this native memory is in C's order");
            return -1;
        }
        const auto asked = [flags](int what) { return (flags & what) == what; };
        view->buf = memory.data;
        view->len = memory.bytes;
        view->itemsize = memory.item_bytes;
        view->readonly = memory.readonly ? 1 : 0;
        view->format = asked(PyBUF_FORMAT) ? const_cast<char*>(memory.format) : nullptr;
        view->ndim = asked(PyBUF_ND) ? memory.dimensions : 1;
        view->shape = asked(PyBUF_ND) ? memory.shape.data() : nullptr;
        view->strides = asked(PyBUF_STRIDES) ? memory.strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = nullptr;
        view->obj = Py_NewRef(object);
        return 0;
    }
    [[nodiscard]] static ref new_type() {
        static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&dealloc)},
                                      {Py_bf_getbuffer, reinterpret_cast<void*>(&get)},
                                      {0, nullptr}};
        static PyType_Spec spec = {"ringloop.NativeMemory", sizeof(lent_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
        return made(PyType_FromSpec(&spec));
    }
    static inline PyObject* type_ = nullptr;  // of the process, as the interpreter is
};

// Where the memory's elements lie, and how many there are in each dimension.
template <std::integral... Length>
void set_shape(lent_memory& memory, std::size_t size, Length... lengths) {
    static_assert(sizeof...(Length) <= lent_dimensions_max, "py::lend: too many dimensions");
    const std::array<std::size_t, sizeof...(Length)> all{static_cast<std::size_t>(lengths)...};
    std::size_t product = 1;
    bool fits = true;
    for (const std::size_t length : all)
        fits = fits && !__builtin_mul_overflow(product, length, &product);
    if (!fits || product != size)
        throw std::invalid_argument(
            "ringloop::py::lend: the shape is of another size than the memory");
    memory.dimensions = static_cast<int>(all.size());
    Py_ssize_t stride = memory.item_bytes;
    for (std::size_t i = all.size(); i-- > 0;) {
        memory.shape[i] = static_cast<Py_ssize_t>(all[i]);
        memory.strides[i] = stride;
        stride *= memory.shape[i];
    }
}

}  // namespace detail

// `elements`, which `owner` keeps where they are. Without a shape: one dimension.
template <class T, std::size_t Extent, std::integral... Length>
[[nodiscard]] object lend(std::shared_ptr<const void> owner, std::span<T, Extent> elements,
                          Length... lengths) {
    detail::lent_memory memory;
    memory.owner = std::move(owner);
    memory.data = const_cast<std::remove_const_t<T>*>(elements.data());
    memory.format = detail::format_of<std::remove_const_t<T>>();
    memory.bytes = static_cast<Py_ssize_t>(elements.size_bytes());
    memory.item_bytes = sizeof(T);
    memory.readonly = std::is_const_v<T>;
    if constexpr (sizeof...(Length) == 0)
        detail::set_shape(memory, elements.size(), elements.size());
    else
        detail::set_shape(memory, elements.size(), lengths...);
    const gil_scope gil;
    const ref lent = detail::lent_object::make(std::move(memory));
    return object(detail::made(PyMemoryView_FromObject(lent.get())));
}

// All elements of a vector, a string, an array, const or not.
template <std::ranges::contiguous_range All, std::integral... Length>
[[nodiscard]] object lend(std::shared_ptr<All> all, Length... lengths) {
    const std::span elements(std::ranges::data(*all), std::ranges::size(*all));
    return lend(std::shared_ptr<const void>(std::move(all)), elements, lengths...);
}

}  // namespace ringloop::py
