// Without pybind11 and nanobind: what they stand for says that one is missing.
// Thread: none; types only.
#pragma once

#include <Python.h>

#include <type_traits>

#include "ringloop/py/convert.hpp"
#include "ringloop/py/export_info.hpp"

namespace ringloop::py {

namespace detail {
template <class...>
inline constexpr bool has_binder = false;
}

template <class T>
struct convert {
    static_assert(detail::has_binder<T>,
                  "ringloop::py: this type has no conversion of ringloop's (value.hpp): a binding "
                  "tool has more; include <nanobind/nanobind.h> before <ringloop/python.hpp>, or "
                  "install pybind11");
};

template <auto Function, gil Policy = gil::hold, class... Arguments>
void def(Arguments&&...) {
    static_assert(detail::has_binder<Arguments...>,
                  "ringloop::py::def needs a binding tool: include <nanobind/nanobind.h> before "
                  "<ringloop/python.hpp>, or install pybind11");
}

}  // namespace ringloop::py
