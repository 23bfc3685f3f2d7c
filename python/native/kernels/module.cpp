// The module _kernels: names, argument lists, exit. The public face is the package
// ringloop.kernels, which also carries the documentation.
#include <pybind11/pybind11.h>

#include <string>

#include "awaiting.hpp"
#include "calls.hpp"
#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/execution.hpp"
#include "ringloop/kernels/matmul.hpp"

namespace py = pybind11;

namespace ringloop::python {

const bridge::python_api& native_api() {
    static const bridge::python_api* table = nullptr;
    if (table != nullptr) return *table;
    const py::object capsule = py::module_::import("ringloop._native").attr("api");
    auto* found = static_cast<const bridge::python_api*>(
        PyCapsule_GetPointer(capsule.ptr(), bridge::python_api_capsule));
    if (found == nullptr) throw py::error_already_set();
    if (found->magic != bridge::python_api_magic || found->version != bridge::python_api_version)
        throw py::import_error(
            "ringloop._kernels and ringloop._native are of different builds: reinstall ringloop");
    table = found;
    return *table;
}

namespace {

void add_awaitables(py::module_& module) {
    module.def(
        "matmul", [](py::object a, py::object b) { return await_call(matmul_call(a, b)); },
        py::arg("a"), py::arg("b"));
    module.def(
        "frame_filter",
        [](py::object frame, py::object kind) {
            return await_call(frame_filter_call(frame, read_word(kind, "frame_filter", "kind")));
        },
        py::arg("frame"), py::arg("kind"));
    module.def(
        "jpeg_decode", [](py::object data) { return await_call(jpeg_decode_call(data)); },
        py::arg("data"));
    module.def(
        "jpeg_encode",
        [](py::object frame, py::object quality) {
            return await_call(jpeg_encode_call(frame, read_int(quality, "jpeg_encode", "quality")));
        },
        py::arg("frame"), py::arg("quality") = 90);
}

void add_synchronous(py::module_& module) {
    module.def(
        "matmul_sync", [](py::object a, py::object b) { return finish_call(matmul_call(a, b)); },
        py::arg("a"), py::arg("b"));
    module.def(
        "frame_filter_sync",
        [](py::object frame, py::object kind) {
            return finish_call(frame_filter_call(frame, read_word(kind, "frame_filter", "kind")));
        },
        py::arg("frame"), py::arg("kind"));
    module.def(
        "jpeg_decode_sync", [](py::object data) { return finish_call(jpeg_decode_call(data)); },
        py::arg("data"));
    module.def(
        "jpeg_encode_sync",
        [](py::object frame, py::object quality) {
            return finish_call(
                jpeg_encode_call(frame, read_int(quality, "jpeg_encode", "quality")));
        },
        py::arg("frame"), py::arg("quality") = 90);
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
    py::module_::import("atexit").attr("register")(py::cpp_function([] {
        const py::gil_scoped_release released;
        kernels::arena::stop_shared();
    }));
}
