// ringloop for extension modules: coroutines that Python awaits.
//
//     #include <ringloop/python.hpp>
//
//     rl::task<double> slow_sum(std::vector<double> all) { … co_return total; }
//     PYBIND11_MODULE(demo, m) { ringloop::py::def<&slow_sum>(m, "slow_sum"); }
//
// and for programs that host Python:
//
//     rl::task<void> app(rl::py::interpreter& python) { … }
//     int main() { return rl::py::run(app); }
//
// The binding tool is nanobind if <nanobind/nanobind.h> was included before, otherwise pybind11;
// one in all files of a module. A process may have modules of both. A program that exports nothing
// needs none.
//
// Built against the installed package alone: find_package(ringloop COMPONENTS python) with
// ringloop.get_cmake_dir() in CMAKE_PREFIX_PATH, target ringloop::python; of programs,
// ringloop::python_embed.
//
// Threads, cancellation, ownership: each header under ringloop/py says its own.
#pragma once

#include "ringloop/py/await.hpp"
#include "ringloop/py/buffer.hpp"
#include "ringloop/py/context.hpp"
#include "ringloop/py/error.hpp"
#include "ringloop/py/fast.hpp"
#include "ringloop/py/function.hpp"
#include "ringloop/py/gil_scope.hpp"
#include "ringloop/py/interpreter.hpp"
#include "ringloop/py/lend.hpp"
#include "ringloop/py/loop.hpp"
#include "ringloop/py/object.hpp"
#include "ringloop/py/ref.hpp"
#include "ringloop/py/run.hpp"
#include "ringloop/ringloop.hpp"

#if defined(NB_VERSION_MAJOR)
#include "ringloop/py/nanobind.hpp"
#elif __has_include(<pybind11/pybind11.h>)
#include "ringloop/py/pybind11.hpp"
#else
#include "ringloop/py/no_binder.hpp"
#endif
