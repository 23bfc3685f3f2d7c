// One call of a kernel each: pinned inputs, the work, the result. Made and destroyed with the GIL
// held; compute() runs on any thread without it and returns false if it was stopped early;
// result() builds the Python object afterwards, with the GIL.
//
// The constructors check everything that can be checked before the work begins, so that a caller's
// mistake is raised where the call is made.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "inputs.hpp"
#include "outputs.hpp"
#include "ringloop/kernels/execution.hpp"
#include "ringloop/kernels/frame_filter.hpp"
#include "ringloop/kernels/jpeg.hpp"

namespace ringloop::python {

class matmul_call {
  public:
    matmul_call(pybind11::handle a, pybind11::handle b);
    [[nodiscard]] bool compute(const kernels::execution& how);
    [[nodiscard]] pybind11::object result() { return product_.object; }

  private:
    template <class Element>
    void prepare();
    template <class Element>
    bool multiply(const kernels::execution& how);
    pinned_buffer a_;
    pinned_buffer b_;
    char format_;
    output_array product_;
};

class frame_filter_call {
  public:
    frame_filter_call(pybind11::handle frame, std::string_view kind);
    [[nodiscard]] bool compute(const kernels::execution& how) {
        return kernels::frame_filter(frame_, kind_, filtered_.data<std::uint8_t>(), how);
    }
    [[nodiscard]] pybind11::object result() { return filtered_.object; }

  private:
    kernels::filter_kind kind_;
    pinned_buffer pinned_;
    kernels::frame_view frame_;
    output_array filtered_;
};

class jpeg_decode_call {
  public:
    explicit jpeg_decode_call(pybind11::handle data);
    [[nodiscard]] bool compute(const kernels::execution& how) {
        return kernels::jpeg_decode(read_bytes(pinned_), size_, pixels_.data<std::uint8_t>(), how);
    }
    [[nodiscard]] pybind11::object result() { return pixels_.object; }

  private:
    pinned_buffer pinned_;
    kernels::jpeg_size size_;
    output_array pixels_;
};

class jpeg_encode_call {
  public:
    jpeg_encode_call(pybind11::handle frame, int quality);
    jpeg_encode_call(jpeg_encode_call&&) noexcept = default;
    jpeg_encode_call& operator=(jpeg_encode_call&&) = delete;
    ~jpeg_encode_call();
    [[nodiscard]] bool compute(const kernels::execution& how);
    [[nodiscard]] pybind11::object result();

  private:
    pinned_buffer pinned_;
    kernels::frame_view frame_;
    int quality_;
    kernels::jpeg_bytes encoded_;
    std::size_t counted_bytes_ = 0;  // of `encoded_`, in the account of native memory
};

}  // namespace ringloop::python
