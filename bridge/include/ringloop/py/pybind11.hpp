// What def.hpp leaves to the binding tool, for pybind11: conversions by its casters, its users'
// exception translators, and its casters for our types.
//
// Thread: GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <type_traits>
#include <utility>

#include "ringloop/py/def.hpp"
#include "ringloop/py/owned_fd.hpp"

namespace ringloop::py {

template <class T>
struct convert {
    static PyObject* to(T&& value) { return pybind11::cast(std::move(value)).release().ptr(); }
    static T from(PyObject* object) { return pybind11::cast<T>(pybind11::handle(object)); }
};

namespace detail {

template <class Scope>
struct is_scope : std::is_base_of<pybind11::handle, Scope> {};
template <class Scope>
struct class_of {
    using type = void;
};
template <class Class, class... Options>
struct class_of<pybind11::class_<Class, Options...>> {
    using type = Class;
};
template <class... Guards>
struct is_call_guard<pybind11::call_guard<Guards...>> : std::true_type {};

inline void throw_raised() {
    throw pybind11::error_already_set();
}

inline bool try_translator(void (*attempt)(std::exception_ptr),
                           std::exception_ptr& failure) noexcept {
    try {
        attempt(failure);
        return true;
    } catch (...) {
        failure = std::current_exception();  // not its type, or it made another of it
        return false;
    }
}

// What pybind11 throws itself.
inline translated restore_own(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (pybind11::error_already_set& from_python) {
        from_python.restore();
        return translated::was_python;
    } catch (const pybind11::builtin_exception& named) {
        named.set_error();
        return translated::yes;
    } catch (...) {
        return translated::no;
    }
}

inline translated try_translators(std::exception_ptr& failure) noexcept {
    // One that answers sets an exception; one that is done without ends the search, too.
    bool answered = false;
    const auto any = [&](auto first, const auto& end) {
        for (; !answered && first != end; ++first) answered = try_translator(*first, failure);
        return answered && PyErr_Occurred() != nullptr;
    };
    // The last of the global ones is pybind11's own, for everything: our table stands for it.
    const auto among = [&any](const auto& global, const auto& local) {
        auto end = global.begin();
        for (auto next = end; next != global.end() && ++next != global.end();) ++end;
        const bool known = any(local.begin(), local.end()) || any(global.begin(), end);
        return known ? translated::yes : translated::no;
    };
#if PYBIND11_VERSION_HEX >= 0x020C0000
    return pybind11::detail::with_exception_translators(among);
#else
    return among(pybind11::detail::get_internals().registered_exception_translators,
                 pybind11::detail::get_local_internals().registered_exception_translators);
#endif
}

inline translated translate(std::exception_ptr& failure) noexcept {
    translated how = restore_own(failure);
    if (how == translated::no) how = try_translators(failure);
    return how != translated::no ? how : restore_own(failure);
}

}  // namespace detail
}  // namespace ringloop::py

namespace pybind11::detail {

template <ringloop::py::detail::is_own T>
struct type_caster<T> {
    using own = ringloop::py::detail::own<T>;
    PYBIND11_TYPE_CASTER(T, const_name(own::name));
    bool load(handle source, bool /*convert*/) {
        if (own::read(source.ptr(), value)) return true;
        if (PyErr_Occurred() != nullptr) throw error_already_set();
        return false;
    }
    template <class Given>
    static handle cast(Given&& source, return_value_policy, handle) {
        return own::give(std::forward<Given>(source));
    }
};

// The descriptor changes hands when all arguments have turned out to be right.
template <>
struct type_caster<ringloop::py::owned_fd> {
    static constexpr auto name = const_name("ringloop.OwnedFd");
    bool load(handle source, bool /*convert*/) {
        if (!ringloop::py::owned_fd::can_be(source.ptr())) return false;
        given = ringloop::py::ref::share(source.ptr());
        return true;
    }
    static handle cast(ringloop::py::owned_fd&& source, return_value_policy, handle) {
        try {
            return std::move(source).to_python().release();
        } catch (const ringloop::py::error& raised) {
            raised.restore();
            throw error_already_set();
        }
    }
    template <class>
    using cast_op_type = ringloop::py::owned_fd;
    operator ringloop::py::owned_fd() {
        try {
            return ringloop::py::owned_fd::from_python(given.get());
        } catch (const ringloop::py::error& raised) {
            raised.restore();
            throw error_already_set();
        }
    }

  private:
    ringloop::py::ref given;
};

template <class T>
using shown = make_caster<std::conditional_t<std::is_void_v<T>, void_type, T>>;

template <class Result>
requires ringloop::py::detail::is_call_result<Result>
struct type_caster<Result> {
    static constexpr auto name =
        const_name(Result::name) + shown<typename Result::value_type>::name + const_name("]");
    static handle cast(Result source, return_value_policy, handle) { return source.object; }
};

template <class Class>
struct type_caster<ringloop::py::detail::bound<Class>> {
    static constexpr auto name = make_caster<Class>::name;
    bool load(handle source, bool /*convert*/) {
        make_caster<Class> object;
        // Nothing converted: that would end with the call.
        if (!object.load(source, false)) return false;
        value.self = cast_op<Class*>(object);
        value.object = ringloop::py::ref::share(source.ptr());
        return value.self != nullptr;
    }
    template <class>
    using cast_op_type = ringloop::py::detail::bound<Class>;
    operator ringloop::py::detail::bound<Class>() { return std::move(value); }

  private:
    ringloop::py::detail::bound<Class> value;
};

}  // namespace pybind11::detail
