// Inputs of the kernels: anything with the buffer protocol, pinned and looked at without a copy.
//
// A pinned_buffer keeps the exporter from moving or freeing its memory; it is made and released
// with the GIL held. The read_* functions refuse what a kernel cannot take, naming function,
// argument and way out: TypeError for the wrong kind of object or element, ValueError for shape and
// strides.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <string>

#include "ringloop/kernels/frame_filter.hpp"
#include "ringloop/kernels/matmul.hpp"

namespace ringloop::python {

class pinned_buffer {
  public:
    pinned_buffer() noexcept = default;
    pinned_buffer(pybind11::handle exporter, int flags);  // throws what the exporter raised
    [[nodiscard]] const Py_buffer& operator*() const noexcept { return *view_; }
    [[nodiscard]] const Py_buffer* operator->() const noexcept { return view_.get(); }

  private:
    struct release {
        void operator()(Py_buffer* view) const noexcept {
            PyBuffer_Release(view);
            delete view;
        }
    };
    std::unique_ptr<Py_buffer, release> view_;  // an exporter may rely on the view's address
};

// The buffer of `input` with shape, strides and format; of objects that speak DLPack only, by way
// of numpy.
[[nodiscard]] pinned_buffer pin_array(pybind11::handle input, const char* function,
                                      const char* name);
// The buffer of `input` as plain contiguous bytes.
[[nodiscard]] pinned_buffer pin_bytes(pybind11::handle input, const char* function,
                                      const char* name);

// 'f' or 'd', in native byte order.
[[nodiscard]] char float_format(const pinned_buffer& array, const char* function, const char* name);

template <class Element>
[[nodiscard]] kernels::matrix_view<Element> read_matrix(const pinned_buffer& array,
                                                        const char* function, const char* name);

// height x width or height x width x channels of uint8.
[[nodiscard]] kernels::frame_view read_frame(const pinned_buffer& array, const char* function);

[[nodiscard]] std::string read_word(pybind11::handle input, const char* function, const char* name);
[[nodiscard]] int read_int(pybind11::handle input, const char* function, const char* name);

[[nodiscard]] std::span<const std::uint8_t> read_bytes(const pinned_buffer& bytes) noexcept;

}  // namespace ringloop::python
