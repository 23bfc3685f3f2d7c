// Products against the textbook sum, over shapes that cross every block border and both layouts.
#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/matmul.hpp"
#include "support.hpp"

using Catch::Contains;
using kernel_tests::collecting_home;
using kernel_tests::lambda_job;
using ringloop::kernels::arena;
using ringloop::kernels::check_product;
using ringloop::kernels::execution;
using ringloop::kernels::matmul;
using ringloop::kernels::matrix_view;

namespace {

// Small integers: every sum is exact, so results are compared for equality.
template <class Element>
std::vector<Element> integers(std::size_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<Element> values(count);
    for (auto& value : values) value = static_cast<Element>(static_cast<int>(generator() % 7) - 3);
    return values;
}

template <class Element>
std::vector<Element> naive(const matrix_view<Element>& a, const matrix_view<Element>& b) {
    std::vector<Element> product(a.rows * b.columns, 0);
    const auto at = [](const matrix_view<Element>& m, std::size_t row, std::size_t column) {
        return m.data[static_cast<std::ptrdiff_t>(row) * m.row_stride +
                      static_cast<std::ptrdiff_t>(column) * m.column_stride];
    };
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t k = 0; k < a.columns; ++k)
            for (std::size_t j = 0; j < b.columns; ++j)
                product[i * b.columns + j] += at(a, i, k) * at(b, k, j);
    return product;
}

template <class Element>
matrix_view<Element> dense(const std::vector<Element>& data, std::size_t rows,
                           std::size_t columns) {
    return {data.data(), rows, columns, static_cast<std::ptrdiff_t>(columns), 1};
}

template <class Element>
matrix_view<Element> transposed(const matrix_view<Element>& m) {
    return {m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

struct shape {
    std::size_t m, k, n;
};
const shape shapes[] = {{1, 1, 1},     {64, 64, 64},  {3, 1000, 2},   {300, 5, 270},
                        {257, 300, 1}, {1, 700, 513}, {130, 520, 300}};

}  // namespace

TEMPLATE_TEST_CASE("products equal the textbook sum in every shape and layout", "", float, double) {
    for (const auto& [m, k, n] : shapes) {
        CAPTURE(m, k, n);
        const auto left = integers<TestType>(m * k, 1);
        const auto right = integers<TestType>(k * n, 2);
        for (int layout = 0; layout < 4; ++layout) {
            const auto a = (layout & 1) != 0 ? transposed(dense(left, k, m)) : dense(left, m, k);
            const auto b = (layout & 2) != 0 ? transposed(dense(right, n, k)) : dense(right, k, n);
            std::vector<TestType> product(m * n, -1);
            REQUIRE(matmul(a, b, product.data()));
            CHECK((product == naive(a, b)));
        }
    }
}

TEST_CASE("a product spread over the arena equals the one on a single thread") {
    collecting_home home;
    arena workers(2);
    const auto left = integers<float>(700 * 600, 3);
    const auto right = integers<float>(600 * 800, 4);
    const auto a = dense(left, 700, 600);
    const auto b = dense(right, 600, 800);
    std::vector<float> alone(700 * 800), spread(700 * 800);
    REQUIRE(matmul(a, b, alone.data()));
    bool finished = false;
    lambda_job job(home, [&](lambda_job& self) {
        finished = matmul(a, b, spread.data(), execution{&self, &workers});
    });
    workers.submit(job);
    home.receive(1);
    CHECK(finished);
    CHECK((alone == spread));
}

TEST_CASE("slices with padded rows are multiplied in place") {
    const auto data = integers<double>(40 * 50, 5);
    const matrix_view<double> a{data.data() + 3, 30, 20, 50, 1};
    const matrix_view<double> b{data.data() + 7, 20, 33, 50, 1};
    std::vector<double> product(30 * 33);
    REQUIRE(matmul(a, b, product.data()));
    CHECK((product == naive(a, b)));
}

TEST_CASE("a stopped product leaves early") {
    collecting_home home;
    lambda_job job(home, [](lambda_job&) {});
    job.request_stop();
    const auto data = integers<float>(512 * 512, 6);
    std::vector<float> product(512 * 512, 42.0F);
    CHECK_FALSE(matmul(dense(data, 512, 512), dense(data, 512, 512), product.data(),
                       execution{&job, nullptr}));
    CHECK(product.back() == 42.0F);
}

TEST_CASE("matrices that do not fit each other are refused with both shapes") {
    const std::vector<float> data(100);
    CHECK_THROWS_WITH(check_product(dense(data, 2, 3), dense(data, 4, 5)),
                      Contains("(2, 3)") && Contains("(4, 5)"));
}

TEST_CASE("empty matrices are refused") {
    const std::vector<float> data(1);
    CHECK_THROWS_WITH(check_product(dense(data, 0, 3), dense(data, 3, 5)), Contains("empty"));
}

TEST_CASE("strides that BLAS cannot follow are refused with the way out") {
    const std::vector<float> data(100);
    const auto good = dense(data, 3, 3);
    const matrix_view<float> both_strided{data.data(), 3, 3, 12, 2};
    const matrix_view<float> reversed{data.data() + 50, 3, 3, -3, 1};
    const matrix_view<float> broadcast{data.data(), 3, 3, 0, 1};
    CHECK_THROWS_WITH(check_product(both_strided, good), Contains("ascontiguousarray"));
    CHECK_THROWS_WITH(check_product(good, reversed), Contains("ascontiguousarray"));
    CHECK_THROWS_WITH(check_product(broadcast, good), Contains("ascontiguousarray"));
}

TEST_CASE("compute time is counted for what was computed") {
    const auto before = ringloop::kernels::compute_ns_total();
    const auto data = integers<float>(256 * 256, 7);
    std::vector<float> product(256 * 256);
    REQUIRE(matmul(dense(data, 256, 256), dense(data, 256, 256), product.data()));
    CHECK(ringloop::kernels::compute_ns_total() > before);
}
