// Pinning and refusing inputs. GIL held throughout; nothing is copied here.
#include "inputs.hpp"

#include <climits>
#include <cstdint>
#include <string>
#include <string_view>

#include "outputs.hpp"

namespace ringloop::python {
namespace {

std::string shape_text(const Py_buffer& view) {
    std::string whole("(");
    for (int axis = 0; axis < view.ndim; ++axis) {
        if (axis != 0) whole.append(", ");
        whole.append(std::to_string(view.shape[axis]));
    }
    return whole.append(view.ndim == 1 ? ",)" : ")");
}

std::string about(const char* function, const char* name) {
    return std::string(function).append(": ").append(name);
}

// The element format without a mark of native byte order; empty for formats of the other order.
std::string_view plain_format(const Py_buffer& view) noexcept {
    std::string_view format = view.format == nullptr ? "B" : view.format;
    if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
        format.remove_prefix(1);
    return format;
}

[[noreturn]] void refuse_object(pybind11::handle input, const char* function, const char* name,
                                const char* wanted) {
    throw pybind11::type_error(about(function, name)
                                   .append(" must be ")
                                   .append(wanted)
                                   .append(", not '")
                                   .append(Py_TYPE(input.ptr())->tp_name)
                                   .append("'"));
}

}  // namespace

pinned_buffer::pinned_buffer(pybind11::handle exporter, int flags) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(exporter.ptr(), view.get(), flags) != 0)
        throw pybind11::error_already_set();
    view_.reset(view.release());
}

pinned_buffer pin_array(pybind11::handle input, const char* function, const char* name) {
    if (PyObject_CheckBuffer(input.ptr())) return {input, PyBUF_RECORDS_RO};
    constexpr const char* wanted =
        "an array (numpy, array.array, memoryview, anything with the buffer protocol or DLPack)";
    if (!pybind11::hasattr(input, "__dlpack__")) refuse_object(input, function, name, wanted);
    const pybind11::object from_dlpack = numpy_attribute("from_dlpack");
    if (from_dlpack.is_none())
        throw pybind11::type_error(
            about(function, name)
                .append(" of type '")
                .append(Py_TYPE(input.ptr())->tp_name)
                .append("' speaks DLPack only, and reading that needs numpy"));
    return {from_dlpack(input), PyBUF_RECORDS_RO};
}

pinned_buffer pin_bytes(pybind11::handle input, const char* function, const char* name) {
    if (!PyObject_CheckBuffer(input.ptr()))
        refuse_object(input, function, name, "bytes-like (bytes, bytearray, memoryview, …)");
    return {input, PyBUF_SIMPLE};
}

char float_format(const pinned_buffer& array, const char* function, const char* name) {
    const std::string_view format = plain_format(*array);
    if (format == "f" || format == "d") return format[0];
    throw pybind11::type_error(
        about(function, name)
            .append(" has elements of format '")
            .append(array->format == nullptr ? "B" : array->format)
            .append("'; use float32 ('f') or float64 ('d') in native byte order, "
                    "with numpy: .astype('float32')"));
}

template <class Element>
kernels::matrix_view<Element> read_matrix(const pinned_buffer& array, const char* function,
                                          const char* name) {
    const Py_buffer& view = *array;
    if (view.ndim != 2)
        throw pybind11::value_error(about(function, name)
                                        .append(" must have two dimensions, its shape is ")
                                        .append(shape_text(view)));
    constexpr auto size = static_cast<Py_ssize_t>(sizeof(Element));
    if (view.strides[0] % size != 0 || view.strides[1] % size != 0 ||
        reinterpret_cast<std::uintptr_t>(view.buf) % sizeof(Element) != 0)
        throw pybind11::value_error(
            about(function, name)
                .append(" does not lie on whole elements (a field of a packed "
                        "structure?): pass a copy"));
    return {static_cast<const Element*>(view.buf), static_cast<std::size_t>(view.shape[0]),
            static_cast<std::size_t>(view.shape[1]), view.strides[0] / size,
            view.strides[1] / size};
}

template kernels::matrix_view<float> read_matrix(const pinned_buffer&, const char*, const char*);
template kernels::matrix_view<double> read_matrix(const pinned_buffer&, const char*, const char*);

kernels::frame_view read_frame(const pinned_buffer& array, const char* function) {
    const Py_buffer& view = *array;
    if (plain_format(view) != "B")
        throw pybind11::type_error(about(function, "frame")
                                       .append(" has elements of format '")
                                       .append(view.format)
                                       .append("'; use uint8 ('B')"));
    if (view.ndim != 2 && view.ndim != 3)
        throw pybind11::value_error(
            about(function, "frame")
                .append(" must have the shape (height, width) or (height, width, "
                        "channels), it has ")
                .append(shape_text(view)));
    const Py_ssize_t channels = view.ndim == 2 ? 1 : view.shape[2];
    const bool channels_dense = view.ndim == 2 || channels <= 1 || view.strides[2] == 1;
    const bool pixels_dense = view.shape[1] <= 1 || view.strides[1] == channels;
    if (!channels_dense || !pixels_dense)
        throw pybind11::value_error(
            about(function, "frame")
                .append(" is strided within its rows, which the kernels do not "
                        "follow: pass numpy.ascontiguousarray(frame)"));
    return {static_cast<const std::uint8_t*>(view.buf), static_cast<std::size_t>(view.shape[0]),
            static_cast<std::size_t>(view.shape[1]), static_cast<std::size_t>(channels),
            view.strides[0]};
}

std::string read_word(pybind11::handle input, const char* function, const char* name) {
    if (!PyUnicode_Check(input.ptr())) refuse_object(input, function, name, "a str");
    return pybind11::cast<std::string>(input);
}

int read_int(pybind11::handle input, const char* function, const char* name) {
    if (!PyIndex_Check(input.ptr())) refuse_object(input, function, name, "an integer");
    const auto number = pybind11::reinterpret_steal<pybind11::object>(PyNumber_Index(input.ptr()));
    if (!number) throw pybind11::error_already_set();
    int overflow = 0;
    const long value = PyLong_AsLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0 || value > INT_MAX || value < INT_MIN)
        throw pybind11::value_error(about(function, name).append(" is out of every range"));
    return static_cast<int>(value);
}

std::span<const std::uint8_t> read_bytes(const pinned_buffer& bytes) noexcept {
    return {static_cast<const std::uint8_t*>(bytes->buf), static_cast<std::size_t>(bytes->len)};
}

}  // namespace ringloop::python
