// ringloop for extension modules: coroutines that Python awaits.
//
//     #include <ringloop/python.hpp>
//
//     rl::task<double> slow_sum(std::vector<double> all) { … co_return total; }
//     PYBIND11_MODULE(demo, m) { ringloop::py::def<&slow_sum>(m, "slow_sum"); }
//
// The binding tool is nanobind if <nanobind/nanobind.h> was included before, otherwise pybind11;
// one in all files of a module. A process may have modules of both.
//
// Built against the installed package alone: find_package(ringloop COMPONENTS python) with
// ringloop.get_cmake_dir() in CMAKE_PREFIX_PATH, target ringloop::python.
//
// Threads, cancellation, ownership: each header under ringloop/py says its own.
#pragma once

#include "ringloop/py/await.hpp"
#include "ringloop/py/buffer.hpp"
#include "ringloop/py/context.hpp"
#include "ringloop/py/error.hpp"
#include "ringloop/py/fast.hpp"
#include "ringloop/py/function.hpp"
#include "ringloop/py/ref.hpp"
#include "ringloop/ringloop.hpp"

#if defined(NB_VERSION_MAJOR)
#include "ringloop/py/nanobind.hpp"
#elif __has_include(<pybind11/pybind11.h>)
#include "ringloop/py/pybind11.hpp"
#else
#error "ringloop needs a binding tool: include <nanobind/nanobind.h> before, or install pybind11"
#endif
