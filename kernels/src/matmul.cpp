// Blocks of a product for OpenBLAS. One block is one gemm on one thread; nothing here allocates,
// and OpenBLAS never starts threads of its own for it.
#include "ringloop/kernels/matmul.hpp"

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "blocks.hpp"
#include "text.hpp"

extern "C" char* openblas_get_corename();  // exported by OpenBLAS, declared in no header of 0.3.21

namespace ringloop::kernels {
namespace {

struct layout {
    CBLAS_TRANSPOSE transposed;
    blasint leading;
};

std::string shape_of(std::size_t rows, std::size_t columns) {
    return text("(", rows, ", ", columns, ")");
}

// How BLAS, told "row-major", has to read this view.
template <class Element>
layout layout_of(const matrix_view<Element>& matrix, const char* name) {
    const auto fits = [](std::ptrdiff_t inner, std::size_t inner_size, std::ptrdiff_t outer,
                         std::size_t outer_size) {
        const bool inner_dense = inner == 1 || inner_size == 1;
        const bool outer_apart =
            outer_size == 1 || (outer >= static_cast<std::ptrdiff_t>(inner_size) && outer > 0);
        return inner_dense && outer_apart;
    };
    const auto leading = [](std::ptrdiff_t outer, std::size_t outer_size, std::size_t inner_size) {
        return static_cast<blasint>(outer_size == 1 ? static_cast<std::ptrdiff_t>(inner_size)
                                                    : outer);
    };
    if (fits(matrix.column_stride, matrix.columns, matrix.row_stride, matrix.rows))
        return {CblasNoTrans, leading(matrix.row_stride, matrix.rows, matrix.columns)};
    if (fits(matrix.row_stride, matrix.rows, matrix.column_stride, matrix.columns))
        return {CblasTrans, leading(matrix.column_stride, matrix.columns, matrix.rows)};
    throw std::invalid_argument(
        text("matmul: the strides of ", name, " (", matrix.row_stride, ", ", matrix.column_stride,
             " elements) are those of neither rows nor columns lying densely in memory: pass a "
             "contiguous copy (numpy.ascontiguousarray)"));
}

template <class Element>
void check_matrix(const matrix_view<Element>& matrix, const char* name) {
    if (matrix.rows == 0 || matrix.columns == 0)
        throw std::invalid_argument(text("matmul: ", name, " is empty, its shape is ",
                                         shape_of(matrix.rows, matrix.columns)));
    const auto small = [](auto value) { return value <= INT_MAX && value >= -INT_MAX; };
    if (matrix.rows > INT_MAX || matrix.columns > INT_MAX || !small(matrix.row_stride) ||
        !small(matrix.column_stride))
        throw std::invalid_argument(
            text("matmul: ", name,
                 " has a size or stride above 2^31 - 1 elements, more than BLAS can address: "
                 "multiply it in parts"));
    (void)layout_of(matrix, name);
}

// Sizes of one block: about 32 million floating-point operations for float32 (0.3 ms with AVX-512,
// 1.6 ms with SSE), half of that for float64, and at most a million elements read of each side.
struct block_sizes {
    std::size_t rows, columns, depth;
};

template <class Element>
block_sizes choose_blocks(std::size_t rows, std::size_t columns, std::size_t depth) {
    constexpr std::size_t side = 256;
    constexpr std::size_t multiplications = std::size_t{64} * 1024 * 1024 / sizeof(Element);
    constexpr std::size_t elements = std::size_t{1} << 20;
    block_sizes size{};
    size.rows = std::min(rows, side);
    size.columns = std::min(columns, std::max(side, side * side / size.rows));
    size.rows = std::min(rows, std::max(side, side * side / size.columns));
    const std::size_t widest = std::max(size.rows, size.columns);
    size.depth = std::min(
        depth, std::max(std::size_t{16},
                        std::min(multiplications / size.rows / size.columns, elements / widest)));
    return size;
}

void gemm(layout a, layout b, blasint m, blasint n, blasint k, const float* pa, const float* pb,
          float keep, float* pc, blasint ldc) {
    cblas_sgemm(CblasRowMajor, a.transposed, b.transposed, m, n, k, 1.0F, pa, a.leading, pb,
                b.leading, keep, pc, ldc);
}
void gemm(layout a, layout b, blasint m, blasint n, blasint k, const double* pa, const double* pb,
          double keep, double* pc, blasint ldc) {
    cblas_dgemm(CblasRowMajor, a.transposed, b.transposed, m, n, k, 1.0, pa, a.leading, pb,
                b.leading, keep, pc, ldc);
}

template <class Element>
const Element* at(const matrix_view<Element>& matrix, layout how, std::size_t row,
                  std::size_t column) {
    const auto leading = static_cast<std::size_t>(how.leading);
    return matrix.data +
           (how.transposed == CblasNoTrans ? row * leading + column : column * leading + row);
}

void use_one_blas_thread() {
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
}

constexpr std::size_t blocks_in(std::size_t whole, std::size_t block) {
    return (whole + block - 1) / block;
}

}  // namespace

template <class Element>
void check_product(const matrix_view<Element>& a, const matrix_view<Element>& b) {
    check_matrix(a, "a");
    check_matrix(b, "b");
    if (a.columns != b.rows)
        throw std::invalid_argument(text("matmul: a has shape ", shape_of(a.rows, a.columns),
                                         " and b ", shape_of(b.rows, b.columns),
                                         "; the columns of a must be as many as the rows of b"));
    if (b.columns > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(Element) / a.rows)
        throw std::invalid_argument(text("matmul: a product of shape ", shape_of(a.rows, b.columns),
                                         " is larger than memory can be"));
}

template <class Element>
bool matmul(const matrix_view<Element>& a, const matrix_view<Element>& b, Element* product,
            const execution& how) {
    check_product(a, b);
    use_one_blas_thread();
    const layout la = layout_of(a, "a");
    const layout lb = layout_of(b, "b");
    const block_sizes size = choose_blocks<Element>(a.rows, b.columns, a.columns);
    const std::size_t across = blocks_in(b.columns, size.columns);
    const auto row_length = static_cast<blasint>(b.columns);

    const auto tile = [&](std::size_t index) {
        const std::size_t row = index / across * size.rows;
        const std::size_t column = index % across * size.columns;
        const auto rows = static_cast<blasint>(std::min(size.rows, a.rows - row));
        const auto columns = static_cast<blasint>(std::min(size.columns, b.columns - column));
        Element* out = product + row * b.columns + column;
        for (std::size_t done = 0; done < a.columns; done += size.depth) {
            if (done != 0 && how.stop_requested()) return false;
            const auto depth = static_cast<blasint>(std::min(size.depth, a.columns - done));
            gemm(la, lb, rows, columns, depth, at(a, la, row, done), at(b, lb, done, column),
                 static_cast<Element>(done == 0 ? 0 : 1), out, row_length);
        }
        return true;
    };
    return for_blocks(how, blocks_in(a.rows, size.rows) * across, tile);
}

std::string blas_core_name() {
    return openblas_get_corename();
}

template void check_product(const matrix_view<float>&, const matrix_view<float>&);
template void check_product(const matrix_view<double>&, const matrix_view<double>&);
template bool matmul(const matrix_view<float>&, const matrix_view<float>&, float*,
                     const execution&);
template bool matmul(const matrix_view<double>&, const matrix_view<double>&, double*,
                     const execution&);

}  // namespace ringloop::kernels
