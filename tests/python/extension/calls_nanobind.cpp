// bridge_calls_nanobind: calls.hpp by nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <ringloop/python.hpp>

namespace binder = nanobind;
#include "calls.hpp"

NB_MODULE(bridge_calls_nanobind, m) {
    binder::exception<calls::own_error>(m, "OwnError", PyExc_LookupError);
    binder::register_exception_translator(
        [](const std::exception_ptr& failure, void*) { calls::answer(failure); });
    calls::add_calls(m);
    calls::add_python_calls(m);
    binder::class_<calls::session> s(m, "Session");
    s.def_ro("is_open", &calls::session::is_open);
    calls::add_members(s);
    binder::implicitly_convertible<std::string, calls::session>();  // but never for `self`
    calls::add_classes(binder::class_<calls::derived>(m, "Derived"),
                       binder::class_<calls::keeper>(m, "Keeper"));
    binder::class_<calls::point> p(m, "Point");
    p.def_ro("x", &calls::point::x).def_ro("y", &calls::point::y);
    calls::add_points(m, p);
}
