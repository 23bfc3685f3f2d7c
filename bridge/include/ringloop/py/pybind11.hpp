// py::def: coroutines and generators exported to Python by pybind11, one line each.
//
//     rl::task<std::string> fetch(std::string host, int port);
//     PYBIND11_MODULE(demo, m) { rl::py::def<&fetch>(m, "fetch"); }     // await demo.fetch("::1",
//     80)
//
//     py::class_<client> c(m, "Client");
//     rl::py::def<&client::get>(c, "get", py::arg("path"));             // members: keeps self
//     alive rl::py::def<&client::lines>(c, "lines");                          // generator<T>:
//     async for rl::py::def_context<&client::open, &client::close>(c);            // async with
//
// The call itself only converts the arguments: nothing runs before the await. Parameters that
// could dangle do not compile (parameters.hpp). Names, defaults, docstrings and overloads are
// pybind11's. gil as second template argument: export_info.hpp. Errors: error.hpp; translators that
// were registered with pybind11 come first.
//
// Thread: module initialisation and calls with the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "ringloop/py/convert.hpp"
#include "ringloop/py/function.hpp"
#include "ringloop/py/iterator.hpp"
#include "ringloop/py/parameters.hpp"
#include "ringloop/py/task_source.hpp"

namespace ringloop::py {

template <class T>
struct convert {
    static PyObject* to(T&& value) { return pybind11::cast(std::move(value)).release().ptr(); }
    static T from(PyObject* object) { return pybind11::cast<T>(pybind11::handle(object)); }
};
template <>
struct convert<ref> {
    static PyObject* to(ref&& value) noexcept {
        return value ? value.release() : Py_NewRef(Py_None);
    }
    static ref from(PyObject* object) noexcept { return ref::share(object); }
};

namespace detail {

// What a call gives back; its type shows in the docstring's signature.
template <class T>
struct returned {
    PyObject* awaitable;
};
template <class T>
struct iterated {
    PyObject* iterator;
};
// The object whose member is called: kept alive, and the C++ object in it.
template <class Class>
struct bound {
    Class* self = nullptr;
    ref object;
};

using translator = void (*)(std::exception_ptr);

inline bool try_translator(translator attempt, std::exception_ptr& failure) noexcept {
    try {
        attempt(failure);
        return true;
    } catch (...) {
        failure = std::current_exception();  // not its type, or it made another of it
        return false;
    }
}

// Python exceptions in pybind11's coats, and its users' translators.
inline bool translate(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (pybind11::error_already_set& from_python) {
        from_python.restore();
        return true;
    } catch (const pybind11::builtin_exception& named) {
        named.set_error();
        return true;
    } catch (...) {
    }
    std::exception_ptr last = failure;
    const auto any = [&last](auto first, const auto& end) {
        for (; first != end; ++first)
            if (try_translator(*first, last)) return true;
        return false;
    };
    // The last of the global ones is pybind11's own, for everything: our table stands for it.
    const auto among = [&any](const auto& global, const auto& local) {
        auto end = global.begin();
        for (auto next = end; next != global.end() && ++next != global.end();) ++end;
        return any(local.begin(), local.end()) || any(global.begin(), end);
    };
#if PYBIND11_VERSION_HEX >= 0x020C0000
    return pybind11::detail::with_exception_translators(among);
#else
    return among(pybind11::detail::get_internals().registered_exception_translators,
                 pybind11::detail::get_local_internals().registered_exception_translators);
#endif
}

template <class T>
struct by_pybind11 {
    template <class Value>
    static PyObject* value(Value&& value) {
        return convert<T>::to(std::forward<Value>(value));
    }
    static void raise(const std::exception_ptr& failure, const export_info& about) noexcept {
        detail::raise(failure, about, &translate);
    }
};

template <class T>
struct is_task : std::false_type {};
template <class T>
struct is_task<task<T>> : std::true_type {};
template <class T>
struct is_generator : std::false_type {};
template <class T>
struct is_generator<generator<T>> : std::true_type {};

inline PyObject* or_throw(PyObject* made) {
    if (made == nullptr) throw pybind11::error_already_set();
    return made;
}

// One exported coroutine function: what a call of it does. `Self` is void for plain functions.
template <class Made>
struct exported {
    using value_type = typename Made::value_type;
    using converter = by_pybind11<value_type>;

    template <class Function, class... Arguments>
    static auto call(const export_info& about, ref self, Function function,
                     Arguments&&... arguments) {
        if constexpr (is_outcome<Made>) {
            return returned<value_type>{or_throw(await_outcome<converter>(
                about, function(std::forward<Arguments>(arguments)...), std::move(self)))};
        } else if constexpr (is_generator<Made>::value) {
            auto source = std::make_unique<generator_source<converter, value_type>>(
                about, function(std::forward<Arguments>(arguments)...), std::move(self));
            return iterated<value_type>{or_throw(runtime().new_iterator(source.release()))};
        } else {
            using source = task_source<converter, Function, std::decay_t<Arguments>...>;
            auto* work = new (std::nothrow)
                source(about, std::move(function), std::forward<Arguments>(arguments)...);
            if (work != nullptr) work->keep(std::move(self));
            return returned<value_type>{or_throw(runtime().new_awaitable(work))};
        }
    }
};

template <class Function>
struct signature;
template <class Made, class... Parameters>
struct signature<Made (*)(Parameters...)> {
    using made = Made;
    using class_type = void;
    static consteval void check() {
        if constexpr (!is_outcome<Made>) refuse_what_dangles<Parameters...>();
    }
    template <auto Function>
    static auto wrapper(const export_info* about) {
        return [about](std::decay_t<Parameters>... given) {
            return exported<Made>::call(
                *about, ref(),
                [](std::decay_t<Parameters>&&... values) { return Function(std::move(values)...); },
                std::move(given)...);
        };
    }
};
template <class Made, class... Parameters>
struct signature<Made (*)(Parameters...) noexcept> : signature<Made (*)(Parameters...)> {};
template <class Made, class Class, class... Parameters>
struct signature<Made (Class::*)(Parameters...)> {
    using made = Made;
    using class_type = Class;
    static consteval void check() {
        if constexpr (!is_outcome<Made>) refuse_what_dangles<Parameters...>();
    }
    template <auto Member>
    static auto wrapper(const export_info* about) {
        return [about](bound<Class> self, std::decay_t<Parameters>... given) {
            Class* const object = self.self;
            return exported<Made>::call(
                *about, std::move(self.object),
                [object](std::decay_t<Parameters>&&... values) {
                    return (object->*Member)(std::move(values)...);
                },
                std::move(given)...);
        };
    }
};
template <class Made, class Class, class... Parameters>
struct signature<Made (Class::*)(Parameters...) const> : signature<Made (Class::*)(Parameters...)> {
};
template <class Made, class Class, class... Parameters>
struct signature<Made (Class::*)(Parameters...) noexcept>
    : signature<Made (Class::*)(Parameters...)> {};
template <class Made, class Class, class... Parameters>
struct signature<Made (Class::*)(Parameters...) const noexcept>
    : signature<Made (Class::*)(Parameters...)> {};
// A lambda without captures; one with captures would be gone when its coroutine goes on.
template <class Lambda>
requires std::is_class_v<Lambda>
struct signature<Lambda> : signature<decltype(+std::declval<Lambda>())> {
};

template <class Made>
consteval void refuse_kind() {
    static_assert(is_task<Made>::value || is_generator<Made>::value || is_outcome<Made>,
                  "ringloop::py::def exports functions that return ringloop::task<T>, "
                  "ringloop::generator<T> or ringloop::py::outcome<T>; plain functions are "
                  "pybind11's own def()");
    refuse_result<typename Made::value_type>();
}

[[nodiscard]] inline const export_info* new_export(const char* name, gil policy) {
    if (import_runtime() < 0) throw pybind11::error_already_set();
    // As long as the process: awaitables may outlive their module.
    auto* made = new export_info{(new std::string(name))->c_str(), policy};
    runtime().add_export(*made);
    return made;
}

}  // namespace detail

template <auto Function, gil Policy = gil::hold, class Scope, class... Extra>
Scope& def(Scope& scope, const char* name, const Extra&... extra) {
    using found = detail::signature<std::decay_t<decltype(Function)>>;
    found::check();
    detail::refuse_kind<typename found::made>();
    scope.def(name, found::template wrapper<Function>(detail::new_export(name, Policy)), extra...);
    return scope;
}

namespace detail {

template <auto Enter, class Class>
task<ref> enter(Class* object, ref self) {
    co_await (object->*Enter)();
    co_return std::move(self);
}

}  // namespace detail

// `async with`: __aenter__ awaits Enter and gives its value, or the object where that is void;
// __aexit__ awaits Leave (task<void>) and lets exceptions through.
template <auto Enter, auto Leave, class Scope>
Scope& def_context(Scope& scope) {
    using entering = detail::signature<std::decay_t<decltype(Enter)>>;
    using leaving = detail::signature<std::decay_t<decltype(Leave)>>;
    using value_type = typename entering::made::value_type;
    using class_type = typename entering::class_type;
    static_assert(std::is_void_v<typename leaving::made::value_type>,
                  "ringloop::py::def_context: leaving returns task<void>");
    const detail::export_info* about = detail::new_export("__aenter__", gil::hold);
    if constexpr (std::is_void_v<value_type>) {
        scope.def("__aenter__", [about](detail::bound<class_type> self) {
            ref object = self.object.share();
            return detail::exported<task<ref>>::call(
                *about, std::move(self.object), &detail::enter<Enter, class_type>,
                static_cast<class_type*>(self.self), std::move(object));
        });
    } else {
        scope.def("__aenter__", entering::template wrapper<Enter>(about));
    }
    const detail::export_info* after = detail::new_export("__aexit__", gil::hold);
    scope.def("__aexit__", [after](detail::bound<class_type> self, const pybind11::args&) {
        return leaving::template wrapper<Leave>(after)(std::move(self));
    });
    return scope;
}

}  // namespace ringloop::py

namespace pybind11::detail {

template <>
struct type_caster<ringloop::py::ref> {
    PYBIND11_TYPE_CASTER(ringloop::py::ref, const_name("object"));
    bool load(handle source, bool /*convert*/) {
        value = ringloop::py::ref::share(source.ptr());
        return true;
    }
    static handle cast(ringloop::py::ref&& source, return_value_policy, handle) {
        return ringloop::py::convert<ringloop::py::ref>::to(std::move(source));
    }
};

template <>
struct type_caster<ringloop::py::function> {
    PYBIND11_TYPE_CASTER(ringloop::py::function, const_name("collections.abc.Callable"));
    bool load(handle source, bool /*convert*/) {
        if (PyCallable_Check(source.ptr()) == 0) return false;
        value = ringloop::py::function(ringloop::py::ref::share(source.ptr()));
        return true;
    }
    static handle cast(const ringloop::py::function& source, return_value_policy, handle) {
        return Py_XNewRef(source.get());
    }
};

template <>
struct type_caster<ringloop::py::bytes> {
    PYBIND11_TYPE_CASTER(ringloop::py::bytes, const_name("bytes"));
    bool load(handle source, bool /*convert*/) {
        if (PyObject_CheckBuffer(source.ptr()) == 0) return false;
        if (!ringloop::py::bytes::read(source.ptr(), value)) throw error_already_set();
        return true;
    }
    static handle cast(const ringloop::py::bytes& source, return_value_policy, handle) {
        return source.object();
    }
};

template <class T>
using shown = make_caster<std::conditional_t<std::is_void_v<T>, void_type, T>>;

template <class T>
struct type_caster<ringloop::py::detail::returned<T>> {
    static constexpr auto name =
        const_name("ringloop.Awaitable[") + shown<T>::name + const_name("]");
    static handle cast(ringloop::py::detail::returned<T> source, return_value_policy, handle) {
        return source.awaitable;
    }
};

template <class T>
struct type_caster<ringloop::py::detail::iterated<T>> {
    static constexpr auto name =
        const_name("collections.abc.AsyncIterator[") + shown<T>::name + const_name("]");
    static handle cast(ringloop::py::detail::iterated<T> source, return_value_policy, handle) {
        return source.iterator;
    }
};

template <class Class>
struct type_caster<ringloop::py::detail::bound<Class>> {
    static constexpr auto name = make_caster<Class>::name;
    bool load(handle source, bool convert) {
        make_caster<Class> object;
        if (!object.load(source, convert)) return false;
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
