// bridge_calls: calls.hpp by pybind11.
#include <pybind11/stl.h>
#include <ringloop/python.hpp>

namespace binder = pybind11;
#include "calls.hpp"

PYBIND11_MODULE(bridge_calls, m) {
    binder::register_exception<calls::own_error>(m, "OwnError", PyExc_LookupError);
    binder::register_exception_translator(
        [](std::exception_ptr failure) { calls::answer(failure); });
    calls::add_calls(m);
    calls::add_python_calls(m);
    binder::class_<calls::session> s(m, "Session");
    s.def_readonly("is_open", &calls::session::is_open);
    calls::add_members(s);
    binder::implicitly_convertible<std::string, calls::session>();  // but never for `self`
    calls::add_classes(binder::class_<calls::derived>(m, "Derived"),
                       binder::class_<calls::keeper>(m, "Keeper"));
    binder::class_<calls::point> p(m, "Point");
    p.def_readonly("x", &calls::point::x).def_readonly("y", &calls::point::y);
    calls::add_points(m, p);
}
