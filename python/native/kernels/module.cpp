// The module _kernels: names, argument lists, exit. The public face is the package
// ringloop.kernels, which also carries the documentation.
#include <pybind11/pybind11.h>

#include <string>

#include "awaiting.hpp"
#include "calls.hpp"
#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/execution.hpp"
#include "ringloop/kernels/matmul.hpp"

namespace ringloop::python {

const bridge::python_table& native_api() {
    if (ringloop::py::import_runtime() < 0) throw pybind11::error_already_set();
    return ringloop::py::runtime();
}

namespace {

void add_awaitables(pybind11::module_& module) {
    module.def(
        "matmul",
        [](pybind11::object a, pybind11::object b) { return await_call(matmul_call(a, b)); },
        pybind11::arg("a"), pybind11::arg("b"));
    module.def(
        "frame_filter",
        [](pybind11::object frame, pybind11::object kind) {
            return await_call(frame_filter_call(frame, read_word(kind, "frame_filter", "kind")));
        },
        pybind11::arg("frame"), pybind11::arg("kind"));
    module.def(
        "jpeg_decode", [](pybind11::object data) { return await_call(jpeg_decode_call(data)); },
        pybind11::arg("data"));
    module.def(
        "jpeg_encode",
        [](pybind11::object frame, pybind11::object quality) {
            return await_call(jpeg_encode_call(frame, read_int(quality, "jpeg_encode", "quality")));
        },
        pybind11::arg("frame"), pybind11::arg("quality") = 90);
}

void add_synchronous(pybind11::module_& module) {
    module.def(
        "matmul_sync",
        [](pybind11::object a, pybind11::object b) { return finish_call(matmul_call(a, b)); },
        pybind11::arg("a"), pybind11::arg("b"));
    module.def(
        "frame_filter_sync",
        [](pybind11::object frame, pybind11::object kind) {
            return finish_call(frame_filter_call(frame, read_word(kind, "frame_filter", "kind")));
        },
        pybind11::arg("frame"), pybind11::arg("kind"));
    module.def(
        "jpeg_decode_sync",
        [](pybind11::object data) { return finish_call(jpeg_decode_call(data)); },
        pybind11::arg("data"));
    module.def(
        "jpeg_encode_sync",
        [](pybind11::object frame, pybind11::object quality) {
            return finish_call(
                jpeg_encode_call(frame, read_int(quality, "jpeg_encode", "quality")));
        },
        pybind11::arg("frame"), pybind11::arg("quality") = 90);
}

}  // namespace
}  // namespace ringloop::python

PYBIND11_MODULE(_kernels, module) {
    namespace kernels = ringloop::kernels;
    module.doc() = "GIL-free compute for ringloop.kernels";
    ringloop::python::find_numpy();
    ringloop::python::add_awaitables(module);
    ringloop::python::add_synchronous(module);
    module.def("compute_seconds",
               [] { return static_cast<double>(kernels::compute_ns_total()) / 1e9; });
    module.def("concurrency", [] { return kernels::arena::shared().concurrency(); });
    module.def("unfinished", [] { return kernels::arena::unfinished_shared(); });
    module.def("blas_core", [] { return kernels::blas_core_name(); });
    // Before the interpreter goes: no job may outlive the objects that it has pinned.
    pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function([] {
        const pybind11::gil_scoped_release released;
        kernels::arena::stop_shared();
    }));
}
