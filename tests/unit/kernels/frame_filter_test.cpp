// Each filter against a reference that does nothing but read its definition, borders included.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/frame_filter.hpp"
#include "support.hpp"

using Catch::Contains;
using kernel_tests::collecting_home;
using kernel_tests::lambda_job;
using kernel_tests::random_bytes;
using ringloop::kernels::arena;
using ringloop::kernels::execution;
using ringloop::kernels::filter_kind;
using ringloop::kernels::filter_named;
using ringloop::kernels::frame_filter;
using ringloop::kernels::frame_view;

namespace {

int pixel(const frame_view& frame, long y, long x, std::size_t channel) {
    y = std::clamp(y, 0L, static_cast<long>(frame.height) - 1);
    x = std::clamp(x, 0L, static_cast<long>(frame.width) - 1);
    return frame.data[y * frame.row_stride + x * static_cast<long>(frame.channels) +
                      static_cast<long>(channel)];
}

double weighted(const frame_view& frame, long y, long x, std::size_t channel,
                const std::vector<std::vector<int>>& weights) {
    const long reach = static_cast<long>(weights.size()) / 2;
    double sum = 0;
    for (long dy = -reach; dy <= reach; ++dy)
        for (long dx = -reach; dx <= reach; ++dx)
            sum += weights[static_cast<std::size_t>(dy + reach)]
                          [static_cast<std::size_t>(dx + reach)] *
                   pixel(frame, y + dy, x + dx, channel);
    return sum;
}

int reference(const frame_view& frame, filter_kind kind, long y, long x, std::size_t channel) {
    if (frame.channels == 4 && channel == 3) return pixel(frame, y, x, channel);
    double value = 0;
    switch (kind) {
        case filter_kind::gaussian5: {
            const int line[] = {1, 4, 6, 4, 1};
            std::vector<std::vector<int>> weights(5, std::vector<int>(5));
            for (std::size_t i = 0; i < 5; ++i)
                for (std::size_t j = 0; j < 5; ++j) weights[i][j] = line[i] * line[j];
            value = weighted(frame, y, x, channel, weights) / 256;
            break;
        }
        case filter_kind::box3:
            value = weighted(frame, y, x, channel, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}) / 9;
            break;
        case filter_kind::sobel:
            value = std::abs(weighted(frame, y, x, channel, {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}})) +
                    std::abs(weighted(frame, y, x, channel, {{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}}));
            break;
        case filter_kind::sharpen:
            value = weighted(frame, y, x, channel, {{0, -1, 0}, {-1, 5, -1}, {0, -1, 0}});
            break;
    }
    return std::clamp(static_cast<int>(value + (value < 0 ? -0.5 : 0.5)), 0, 255);
}

void check_against_reference(const frame_view& frame, filter_kind kind,
                             const std::vector<std::uint8_t>& filtered) {
    std::size_t wrong = 0;
    for (std::size_t y = 0; y < frame.height; ++y)
        for (std::size_t x = 0; x < frame.width; ++x)
            for (std::size_t c = 0; c < frame.channels; ++c)
                wrong += filtered[(y * frame.width + x) * frame.channels + c] !=
                         reference(frame, kind, static_cast<long>(y), static_cast<long>(x), c);
    CHECK(wrong == 0);
}

frame_view dense(const std::vector<std::uint8_t>& data, std::size_t height, std::size_t width,
                 std::size_t channels) {
    return {data.data(), height, width, channels, static_cast<std::ptrdiff_t>(width * channels)};
}

}  // namespace

TEST_CASE("every filter equals its definition on every small size and channel count") {
    const auto kind = GENERATE(filter_kind::gaussian5, filter_kind::box3, filter_kind::sobel,
                               filter_kind::sharpen);
    const std::size_t channels = GENERATE(1U, 3U, 4U);
    for (std::size_t height : {1U, 2U, 3U, 5U, 17U})
        for (std::size_t width : {1U, 2U, 4U, 33U}) {
            CAPTURE(height, width, channels);
            const auto data = random_bytes(height * width * channels, 9);
            std::vector<std::uint8_t> filtered(data.size());
            const auto frame = dense(data, height, width, channels);
            REQUIRE(frame_filter(frame, kind, filtered.data()));
            check_against_reference(frame, kind, filtered);
        }
}

TEST_CASE("a frame of several bands has no seam between them") {
    collecting_home home;
    arena workers(2);
    const std::size_t height = 700, width = 800, channels = 3;  // 1.6 MiB: four bands
    const auto data = random_bytes(height * width * channels, 10);
    const auto frame = dense(data, height, width, channels);
    std::vector<std::uint8_t> filtered(data.size());
    lambda_job job(home, [&](lambda_job& self) {
        const execution how{&self, &workers};
        if (!frame_filter(frame, filter_kind::gaussian5, filtered.data(), how)) std::abort();
    });
    workers.submit(job);
    home.receive(1);
    check_against_reference(frame, filter_kind::gaussian5, filtered);
}

TEST_CASE("an image upside down, with padded rows, is read through its stride") {
    const std::size_t height = 9, width = 7, channels = 3, row = 32;
    const auto data = random_bytes(height * row, 11);
    const frame_view frame{data.data() + (height - 1) * row, height, width, channels,
                           -static_cast<std::ptrdiff_t>(row)};
    std::vector<std::uint8_t> filtered(height * width * channels);
    REQUIRE(frame_filter(frame, filter_kind::sharpen, filtered.data()));
    check_against_reference(frame, filter_kind::sharpen, filtered);
}

TEST_CASE("an unknown filter is refused with the known ones") {
    CHECK_THROWS_WITH(filter_named("gauss"), Contains("gaussian5") && Contains("'gauss'"));
    CHECK(filter_named("sobel") == filter_kind::sobel);
}

TEST_CASE("empty frames and two channels are refused") {
    const std::vector<std::uint8_t> data(64);
    std::vector<std::uint8_t> out(64);
    CHECK_THROWS_WITH((void)frame_filter(dense(data, 4, 4, 2), filter_kind::box3, out.data()),
                      Contains("(4, 4, 2)"));
    CHECK_THROWS_WITH((void)frame_filter(dense(data, 0, 4, 3), filter_kind::box3, out.data()),
                      Contains("empty"));
}
