// Results of the kernels: a numpy array where numpy is importable, else a memoryview of the same
// shape and format over a bytearray. Made when the kernel is called, filled by the worker. GIL
// held.
#pragma once

#include <pybind11/pybind11.h>

#include <initializer_list>

#include "inputs.hpp"

namespace ringloop::python {

// Looks for numpy; called once, when the module is imported.
void find_numpy();
// numpy's attribute of that name, or None if numpy is not installed.
[[nodiscard]] pybind11::object numpy_attribute(const char* name);

struct output_array {
    pybind11::object object;
    pinned_buffer memory;  // writable, contiguous

    template <class Element>
    [[nodiscard]] Element* data() const noexcept {
        return static_cast<Element*>(memory->buf);
    }
};

// `format` is one of 'f', 'd', 'B'. Throws MemoryError as the allocator does.
[[nodiscard]] output_array make_output(char format, std::initializer_list<std::size_t> shape);

}  // namespace ringloop::python
