// matmul: the product of two matrices, float32 or float64, by OpenBLAS in blocks of about a
// millisecond. See execution.hpp for threads, stopping and errors.
//
// OpenBLAS itself is held to one thread (openblas_set_num_threads(1), at the first product): the
// parallelism is the arena's. That setting is the library's own and process-wide.
#pragma once

#include <cstddef>
#include <string>

#include "ringloop/kernels/execution.hpp"

namespace ringloop::kernels {

// A borrowed matrix; strides count elements. One of the two strides must be 1 and the other at
// least as large as the rows (or columns) it steps over: row-major, column-major, and slices of
// those.
template <class Element>
struct matrix_view {
    const Element* data;
    std::size_t rows;
    std::size_t columns;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride;
};

// Throws std::invalid_argument, saying what to do, if the product cannot be taken: inner sizes
// differ, an empty matrix, strides as above not met.
template <class Element>
void check_product(const matrix_view<Element>& a, const matrix_view<Element>& b);

// product (row-major, a.rows x b.columns, no overlap with a and b) = a * b. False: stopped early,
// the product is incomplete.
template <class Element>
[[nodiscard]] bool matmul(const matrix_view<Element>& a, const matrix_view<Element>& b,
                          Element* product, const execution& how = {});

// What OpenBLAS calls the processor it runs on, for example "Haswell" or "SkylakeX".
[[nodiscard]] std::string blas_core_name();

}  // namespace ringloop::kernels
