// py::def: coroutines and generators exported to Python, one line each.
//
//     rl::task<std::string> fetch(std::string host, int port);
//     PYBIND11_MODULE(demo, m) {                  // or NB_MODULE(demo, m)
//         rl::py::def<&fetch>(m, "fetch");        // await demo.fetch("::1", 80)
//     }
//
//     py::class_<client> c(m, "Client");
//     rl::py::def<&client::get>(c, "get", py::arg("path"));       // a member: keeps self alive
//     rl::py::def<&client::lines>(c, "lines");                    // a generator<T>: async for
//     rl::py::def<&get_all>(c, "get_all");                        // task<T> get_all(client&, …)
//     rl::py::def_static<&client::connect>(c, "connect");         // await Client.connect(…)
//     rl::py::def_context<&client::open, &client::close>(c);      // async with
//
// The call itself only converts the arguments: nothing runs before the await. Parameters that
// could dangle do not compile (parameters.hpp). Names, defaults, docstrings and overloads are the
// binding tool's, whose header (pybind11.hpp, nanobind.hpp) says what this one leaves open; it is
// included by that one. gil as second template argument: export_info.hpp. Errors: error.hpp;
// translators that were registered with the binding tool come first.
//
// Thread: module initialisation and calls with the GIL.
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "ringloop/py/convert.hpp"
#include "ringloop/py/function.hpp"
#include "ringloop/py/iterator.hpp"
#include "ringloop/py/parameters.hpp"
#include "ringloop/py/task_source.hpp"

namespace ringloop::py {
namespace detail {

// ---- what the binding tool's header defines, beside convert<T> and casters for the types below

// Throws what the tool's calls turn into the Python exception that is set.
[[noreturn]] inline void throw_raised();
// The tool's table, and its users': a translator (error.hpp).
[[nodiscard]] inline translated translate(std::exception_ptr& failure) noexcept;
// Of modules and classes: true for the tool's own.
template <class Scope>
struct is_scope;
// The C++ class that a class of the tool's stands for; void for a module.
template <class Scope>
struct class_of;
// Of what is given beside a function: its guard around each call.
template <class Extra>
struct is_call_guard : std::false_type {};

// ---- what a call gives back; its type shows in the docstring's signature

template <class T>
struct returned {
    static constexpr char name[] = "ringloop.Awaitable[";
    using value_type = T;
    PyObject* object;
};
template <class T>
struct iterated {
    static constexpr char name[] = "collections.abc.AsyncIterator[";
    using value_type = T;
    PyObject* object;
};
template <class T>
inline constexpr bool is_call_result = false;
template <class T>
inline constexpr bool is_call_result<returned<T>> = true;
template <class T>
inline constexpr bool is_call_result<iterated<T>> = true;

// The object whose member is called: kept alive, and the C++ object in it.
template <class Class>
struct bound {
    Class* self = nullptr;
    ref object;
};

template <class T>
struct by_binder {
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
    if (made == nullptr) throw_raised();
    return made;
}

// One exported coroutine function: what a call of it does. `Self` is void for plain functions.
template <class Made>
struct exported {
    using value_type = typename Made::value_type;
    using converter = by_binder<value_type>;

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

// What answers at once may look at its caller's memory; a coroutine goes on when that is gone.
template <class Made, class... Parameters>
consteval void refuse_parameters() {
    if constexpr (is_outcome<Made>)
        refuse_raw_objects<Parameters...>();
    else
        refuse_what_dangles<Parameters...>();
}

template <class Function>
struct signature;
template <class Made, class... Parameters>
struct signature<Made (*)(Parameters...)> {
    using made = Made;
    using class_type = void;
    static consteval void check() { refuse_parameters<Made, Parameters...>(); }
    template <auto Function, class /*Class*/>
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
    static consteval void check() { refuse_parameters<Made, Parameters...>(); }
    // Owner: the class that Python knows, Class or derived from it.
    template <auto Member, class Owner>
    static auto wrapper(const export_info* about) {
        return [about](bound<Owner> self, std::decay_t<Parameters>... given) {
            Owner* const object = self.self;
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

// A function whose first parameter is the class's object, in a scope of that class: one of its
// members.
template <class Function, class Class>
struct free_member : std::false_type {};
template <class Made, class Object, class... Parameters, class Class>
struct free_member<Made (*)(Object&, Parameters...), Class>
    : std::is_base_of<std::remove_const_t<Object>, Class> {
    using made = Made;
    using class_type = std::remove_const_t<Object>;
    static consteval void check() { signature<Made (*)(Parameters...)>::check(); }
    template <auto Function, class Owner>
    static auto wrapper(const export_info* about) {
        return [about](bound<Owner> self, std::decay_t<Parameters>... given) {
            Owner* const object = self.self;
            return exported<Made>::call(
                *about, std::move(self.object),
                [object](std::decay_t<Parameters>&&... values) {
                    return Function(*object, std::move(values)...);
                },
                std::move(given)...);
        };
    }
};
template <class Made, class... Parameters, class Class>
struct free_member<Made (*)(Parameters...) noexcept, Class>
    : free_member<Made (*)(Parameters...), Class> {};
template <class Lambda, class Class>
requires std::is_class_v<Lambda> && requires(Lambda function) {
    +function;
}
struct free_member<Lambda, Class> : free_member<decltype(+std::declval<Lambda>()), Class> {};

template <class Function, class Scope>
using signature_in =
    std::conditional_t<free_member<Function, typename class_of<Scope>::type>::value,
                       free_member<Function, typename class_of<Scope>::type>, signature<Function>>;

template <class Made>
consteval void refuse_kind() {
    static_assert(is_task<Made>::value || is_generator<Made>::value || is_outcome<Made>,
                  "ringloop::py::def exports functions that return ringloop::task<T>, "
                  "ringloop::generator<T> or ringloop::py::outcome<T>; plain functions are "
                  "the binding tool's own def()");
    refuse_result<typename Made::value_type>();
}

// What a member of Class is called on as one of Scope's.
template <class Class, class Scope>
using owner_in = std::conditional_t<std::is_base_of_v<Class, typename class_of<Scope>::type>,
                                    typename class_of<Scope>::type, Class>;

template <class... Extra>
consteval void refuse_guards() {
    static_assert((!is_call_guard<Extra>::value && ...),
                  "ringloop::py::def: a call_guard would be there while the awaitable is made, "
                  "which needs the GIL, and gone when the coroutine runs; def<&f, gil::release> "
                  "runs the coroutine's first part without the GIL");
}

template <class Scope>
consteval void refuse_scope() {
    static_assert(is_scope<Scope>::value,
                  "ringloop::py::def: this module or class is not of the binding tool that "
                  "<ringloop/python.hpp> took: nanobind if <nanobind/nanobind.h> is included "
                  "before it, otherwise pybind11");
}

[[nodiscard]] inline std::string text_attribute(PyObject* object, const char* name) {
    const ref found = ref::steal(PyObject_GetAttrString(object, name));
    const char* const text = found ? PyUnicode_AsUTF8(found.get()) : nullptr;
    if (text == nullptr) throw std::runtime_error(error::take().what());
    return text;
}

[[nodiscard]] inline const export_info* new_export(PyObject* scope, const char* name, gil policy) {
    // As text: what a tool says of a Python exception here has the reason in its cause only.
    if (import_runtime() < 0) throw std::runtime_error(error::take().what());
    // As long as the process: awaitables may outlive their module.
    const bool in_class = PyType_Check(scope) != 0;
    const std::string prefix = in_class ? text_attribute(scope, "__qualname__") + "." : "";
    auto* made = new export_info{kept_text((prefix + name).c_str()), policy};
    made->module = kept_text(text_attribute(scope, in_class ? "__module__" : "__name__").c_str());
    runtime().add_export(*made);
    return made;
}

}  // namespace detail

template <auto Function, gil Policy = gil::hold, class Scope, class... Extra>
Scope& def(Scope& scope, const char* name, const Extra&... extra) {
    using found = detail::signature_in<std::decay_t<decltype(Function)>, Scope>;
    detail::refuse_scope<Scope>();
    found::check();
    detail::refuse_kind<typename found::made>();
    detail::refuse_guards<Extra...>();
    using owner = detail::owner_in<typename found::class_type, Scope>;
    scope.def(
        name,
        found::template wrapper<Function, owner>(detail::new_export(scope.ptr(), name, Policy)),
        extra...);
    return scope;
}

// A static member of a class, or a function that goes by its name: without an object.
template <auto Function, gil Policy = gil::hold, class Scope, class... Extra>
Scope& def_static(Scope& scope, const char* name, const Extra&... extra) {
    using found = detail::signature<std::decay_t<decltype(Function)>>;
    detail::refuse_scope<Scope>();
    static_assert(!std::is_void_v<typename detail::class_of<Scope>::type>,
                  "ringloop::py::def_static: the scope is no class; functions of a module are "
                  "def()'s");
    static_assert(std::is_void_v<typename found::class_type>,
                  "ringloop::py::def_static: a member that needs an object is def()'s");
    found::check();
    detail::refuse_kind<typename found::made>();
    detail::refuse_guards<Extra...>();
    scope.def_static(
        name,
        found::template wrapper<Function, void>(detail::new_export(scope.ptr(), name, Policy)),
        extra...);
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
    using class_type = detail::owner_in<typename entering::class_type, Scope>;
    using leaver_type = detail::owner_in<typename leaving::class_type, Scope>;
    detail::refuse_scope<Scope>();
    static_assert(std::is_void_v<typename leaving::made::value_type>,
                  "ringloop::py::def_context: leaving returns task<void>; an __aexit__ that asks "
                  "for the exception is def()'s, with three py::ref");
    const detail::export_info* about = detail::new_export(scope.ptr(), "__aenter__", gil::hold);
    if constexpr (std::is_void_v<value_type>) {
        scope.def("__aenter__", [about](detail::bound<class_type> self) {
            ref object = self.object.share();
            return detail::exported<task<ref>>::call(
                *about, std::move(self.object), &detail::enter<Enter, class_type>,
                static_cast<class_type*>(self.self), std::move(object));
        });
    } else {
        scope.def("__aenter__", entering::template wrapper<Enter, class_type>(about));
    }
    const detail::export_info* after = detail::new_export(scope.ptr(), "__aexit__", gil::hold);
    scope.def("__aexit__", [after](detail::bound<leaver_type> self, ref, ref, ref) {
        return leaving::template wrapper<Leave, leaver_type>(after)(std::move(self));
    });
    return scope;
}

}  // namespace ringloop::py
