// Arrays for results, with and without numpy. GIL held throughout.
#include "outputs.hpp"

#include <memory>
#include <string>

namespace ringloop::python {
namespace {

// Kept for the life of the process: extension modules outlive every sensible point of release.
struct numpy_module {
    pybind11::object module = pybind11::none();
    pybind11::object empty = pybind11::none();
    pybind11::object float32 = pybind11::none();
    pybind11::object float64 = pybind11::none();
    pybind11::object uint8 = pybind11::none();
};

numpy_module* numpy = nullptr;

pybind11::tuple shape_tuple(std::initializer_list<std::size_t> shape) {
    pybind11::tuple sizes(shape.size());
    std::size_t axis = 0;
    for (const std::size_t size : shape) sizes[axis++] = pybind11::int_(size);
    return sizes;
}

pybind11::object make_memoryview(char format, std::initializer_list<std::size_t> shape) {
    std::size_t bytes = format == 'd' ? 8 : format == 'f' ? 4 : 1;
    for (const std::size_t size : shape) bytes *= size;
    const auto storage = pybind11::reinterpret_steal<pybind11::object>(
        PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
    if (!storage) throw pybind11::error_already_set();
    const auto flat =
        pybind11::reinterpret_steal<pybind11::object>(PyMemoryView_FromObject(storage.ptr()));
    if (!flat) throw pybind11::error_already_set();
    return flat.attr("cast")(std::string(1, format), shape_tuple(shape));
}

}  // namespace

void find_numpy() {
    auto found = std::make_unique<numpy_module>();
    try {
        found->module = pybind11::module_::import("numpy");
        found->empty = found->module.attr("empty");
        found->float32 = found->module.attr("dtype")("float32");
        found->float64 = found->module.attr("dtype")("float64");
        found->uint8 = found->module.attr("dtype")("uint8");
    } catch (pybind11::error_already_set& error) {
        if (!error.matches(PyExc_ImportError)) throw;
    }
    numpy = found.release();
}

pybind11::object numpy_attribute(const char* name) {
    const pybind11::object& module = numpy->module;
    return module.is_none() ? pybind11::object(pybind11::none())
                            : pybind11::object(module.attr(name));
}

output_array make_output(char format, std::initializer_list<std::size_t> shape) {
    const numpy_module& library = *numpy;
    pybind11::object array;
    if (library.module.is_none()) {
        array = make_memoryview(format, shape);
    } else {
        const pybind11::object& element = format == 'f'   ? library.float32
                                          : format == 'd' ? library.float64
                                                          : library.uint8;
        array = library.empty(shape_tuple(shape), element);
    }
    pinned_buffer memory(array, PyBUF_CONTIG);
    return {std::move(array), std::move(memory)};
}

}  // namespace ringloop::python
