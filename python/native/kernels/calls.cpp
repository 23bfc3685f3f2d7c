// Checking calls, at the time of the call. GIL held, except in compute().
#include "calls.hpp"

#include "awaiting.hpp"
#include "ringloop/kernels/matmul.hpp"

namespace ringloop::python {
namespace {

constexpr const char* matmul_name = "matmul";

}  // namespace

matmul_call::matmul_call(pybind11::handle a, pybind11::handle b)
    : a_(pin_array(a, matmul_name, "a")),
      b_(pin_array(b, matmul_name, "b")),
      format_(float_format(a_, matmul_name, "a")) {
    if (float_format(b_, matmul_name, "b") != format_)
        throw pybind11::type_error(
            "matmul: a and b have different element types, one float32 and one float64: convert "
            "one of them, with numpy: .astype(…)");
    if (format_ == 'f') {
        prepare<float>();
    } else {
        prepare<double>();
    }
}

template <class Element>
void matmul_call::prepare() {
    const auto a = read_matrix<Element>(a_, matmul_name, "a");
    const auto b = read_matrix<Element>(b_, matmul_name, "b");
    kernels::check_product(a, b);
    product_ = make_output(format_, {a.rows, b.columns});
}

template <class Element>
bool matmul_call::multiply(const kernels::execution& how) {
    return kernels::matmul(read_matrix<Element>(a_, matmul_name, "a"),
                           read_matrix<Element>(b_, matmul_name, "b"), product_.data<Element>(),
                           how);
}

bool matmul_call::compute(const kernels::execution& how) {
    return format_ == 'f' ? multiply<float>(how) : multiply<double>(how);
}

frame_filter_call::frame_filter_call(pybind11::handle frame, std::string_view kind)
    : kind_(kernels::filter_named(kind)),
      pinned_(pin_array(frame, "frame_filter", "frame")),
      frame_(read_frame(pinned_, "frame_filter")) {
    kernels::check_frame(frame_);
    filtered_ = pinned_->ndim == 2
                    ? make_output('B', {frame_.height, frame_.width})
                    : make_output('B', {frame_.height, frame_.width, frame_.channels});
}

jpeg_decode_call::jpeg_decode_call(pybind11::handle data)
    : pinned_(pin_bytes(data, "jpeg_decode", "data")),
      size_(kernels::jpeg_read_size(read_bytes(pinned_))),
      pixels_(make_output('B', {size_.height, size_.width, 3})) {}

jpeg_encode_call::jpeg_encode_call(pybind11::handle frame, int quality)
    : pinned_(pin_array(frame, "jpeg_encode", "frame")),
      frame_(read_frame(pinned_, "jpeg_encode")),
      quality_(quality) {
    kernels::check_encode(frame_, quality_);
    static_cast<void>(native_api());  // counts the result, on a thread that could not import it
}

bool jpeg_encode_call::compute(const kernels::execution& how) {
    const bool finished = kernels::jpeg_encode(frame_, quality_, encoded_, how);
    if (!finished) return false;
    counted_bytes_ = encoded_.size;
    py::runtime().count_result(encoded_.data.get(), counted_bytes_, true);
    return true;
}

jpeg_encode_call::~jpeg_encode_call() {
    if (counted_bytes_ != 0) py::runtime().count_result(encoded_.data.get(), counted_bytes_, false);
}

pybind11::object jpeg_encode_call::result() {
    const auto* data = reinterpret_cast<const char*>(encoded_.data.get());
    return pybind11::bytes(data, encoded_.size);
}

}  // namespace ringloop::python
