// What def.hpp leaves to the binding tool, for nanobind: conversions by its casters, its users'
// exception translators, and its casters for our types.
//
// Thread: GIL.
#pragma once

#include <nanobind/nanobind.h>

#if defined(Py_LIMITED_API)
#error "ringloop's C++ interface needs the whole of Python's C API: build without STABLE_ABI"
#elif NB_VERSION_MAJOR < 2 || (NB_VERSION_MAJOR == 2 && NB_VERSION_MINOR < 11)
#error "ringloop needs nanobind 2.11 or newer"
#endif

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/py/def.hpp"
#include "ringloop/py/owned_fd.hpp"

namespace ringloop::py {

template <class T>
struct convert {
    static PyObject* to(T&& value) {
        try {
            return nanobind::cast(std::move(value)).release().ptr();
        } catch (const std::bad_cast&) {
            throw nanobind::type_error(
                "a C++ value has no type in Python: bind its class, or include nanobind's caster "
                "for it");
        }
    }
    static T from(PyObject* object) {
        try {
            return nanobind::cast<T>(nanobind::handle(object));
        } catch (const std::bad_cast&) {
            const std::string type(Py_TYPE(object)->tp_name);
            const std::string text = "C++ asked for another type than Python's answer has: " + type;
            throw nanobind::type_error(text.c_str());
        }
    }
};

namespace detail {

template <class Scope>
struct is_scope : std::is_base_of<nanobind::handle, Scope> {};
template <class Scope>
struct class_of {
    using type = void;
};
template <class Class, class... Options>
struct class_of<nanobind::class_<Class, Options...>> {
    using type = Class;
};
template <class... Guards>
struct is_call_guard<nanobind::call_guard<Guards...>> : std::true_type {};

inline void throw_raised() {
    throw nanobind::python_error();
}

// What nanobind itself makes of an exception that no translator of its users' knows.
struct usual_answer {
    PyObject* type;
    std::string text;
};
inline usual_answer usual_answer_to(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::bad_alloc& e) {
        return {PyExc_MemoryError, e.what()};
    } catch (const std::domain_error& e) {
        return {PyExc_ValueError, e.what()};
    } catch (const std::invalid_argument& e) {
        return {PyExc_ValueError, e.what()};
    } catch (const std::length_error& e) {
        return {PyExc_ValueError, e.what()};
    } catch (const std::range_error& e) {
        return {PyExc_ValueError, e.what()};
    } catch (const std::out_of_range& e) {
        return {PyExc_IndexError, e.what()};
    } catch (const std::overflow_error& e) {
        return {PyExc_OverflowError, e.what()};
    } catch (const std::exception& e) {
        return {PyExc_RuntimeError, e.what()};
    } catch (...) {
        return {PyExc_SystemError, ""};  // "could not be translated"
    }
}

[[nodiscard]] inline bool is_utf8(const std::string& text) {
    const ref decoded = ref::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
    PyErr_Clear();
    return static_cast<bool>(decoded);
}

[[nodiscard]] inline bool is_usual(PyObject* raised, const std::exception_ptr& failure) {
    const usual_answer usual = usual_answer_to(failure);
    // Words that it could not decode took its answer's place.
    if (PyErr_GivenExceptionMatches(raised, PyExc_UnicodeDecodeError) != 0 && !is_utf8(usual.text))
        return true;
    if (reinterpret_cast<PyObject*>(Py_TYPE(raised)) != usual.type) return false;
    if (usual.type == PyExc_SystemError) return true;
    const ref said = ref::steal(PyObject_Str(raised));
    const char* const words = said ? PyUnicode_AsUTF8(said.get()) : nullptr;
    PyErr_Clear();
    return words != nullptr && usual.text == words;
}

// nanobind shows its translators to nobody: a function of its own throws to them. What it answers
// itself, after them all, is left to our table.
inline translated translate(std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (nanobind::python_error& from_python) {
        from_python.restore();
        return translated::was_python;
    } catch (...) {
    }
    try {
        const nanobind::object thrower =
            nanobind::cpp_function([&failure] { std::rethrow_exception(failure); });
        const ref answer = ref::steal(PyObject_CallNoArgs(thrower.ptr()));
        bridge::ref raised = bridge::take_exception();
        if (!raised || is_usual(raised.get(), failure)) return translated::no;
        bridge::restore_exception(std::move(raised));
        return translated::yes;
    } catch (...) {  // no memory
        PyErr_Clear();
        return translated::no;
    }
}

}  // namespace detail
}  // namespace ringloop::py

namespace nanobind::detail {

template <ringloop::py::detail::is_own T>
struct type_caster<T> {
    using own = ringloop::py::detail::own<T>;
    NB_TYPE_CASTER(T, const_name(own::name))
    bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
        try {
            if (own::read(source.ptr(), value)) return true;
        } catch (const std::bad_alloc&) {
        }
        PyErr_Clear();  // nanobind says which types the call takes
        return false;
    }
    template <class Given>
    static handle from_cpp(Given&& source, rv_policy, cleanup_list*) noexcept {
        return own::give(std::forward<Given>(source));
    }
};
// Also None, as everywhere where an object is taken.
template <>
struct has_arg_defaults<ringloop::py::ref> : std::true_type {};

// The descriptor changes hands when all arguments have turned out to be right.
template <>
struct type_caster<ringloop::py::owned_fd> {
    using Value = ringloop::py::owned_fd;
    static constexpr auto Name = const_name("ringloop.OwnedFd");
    template <class>
    using Cast = Value;
    template <class>
    static constexpr bool can_cast() {
        return true;
    }
    bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
        if (!Value::can_be(source.ptr())) return false;
        given = ringloop::py::ref::share(source.ptr());
        return true;
    }
    static handle from_cpp(Value&& source, rv_policy, cleanup_list*) noexcept {
        try {
            return std::move(source).to_python().release();
        } catch (const ringloop::py::error& raised) {
            raised.restore();
            return {};
        }
    }
    explicit operator Value() {
        try {
            return Value::from_python(given.get());
        } catch (const ringloop::py::error& raised) {
            raised.restore();
            throw python_error();
        }
    }

  private:
    ringloop::py::ref given;
};

template <class Result>
requires ringloop::py::detail::is_call_result<Result>
struct type_caster<Result> {
    using value_type = typename Result::value_type;
    using shown =
        make_caster<std::conditional_t<std::is_void_v<value_type>, void_type, value_type>>;
    static constexpr auto Name = const_name(Result::name) + shown::Name + const_name("]");
    static handle from_cpp(Result source, rv_policy, cleanup_list*) noexcept {
        return source.object;
    }
};

template <class Class>
struct type_caster<ringloop::py::detail::bound<Class>> {
    NB_TYPE_CASTER(ringloop::py::detail::bound<Class>, make_caster<Class>::Name)
    bool from_python(handle source, std::uint32_t, cleanup_list* cleanup) noexcept {
        make_caster<Class> object;
        // Nothing converted: that would end with the call.
        if (!object.from_python(source, 0, cleanup)) return false;
        value.self = object.operator Class*();
        value.object = ringloop::py::ref::share(source.ptr());
        return value.self != nullptr;
    }
};

}  // namespace nanobind::detail
