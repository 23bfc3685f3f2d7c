// JPEG: a round trip stays close, and no damage ends in anything but an exception.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ringloop/kernels/jpeg.hpp"
#include "support.hpp"

using Catch::Contains;
using kernel_tests::collecting_home;
using kernel_tests::lambda_job;
using ringloop::kernels::execution;
using ringloop::kernels::frame_view;
using ringloop::kernels::jpeg_bytes;
using ringloop::kernels::jpeg_decode;
using ringloop::kernels::jpeg_encode;
using ringloop::kernels::jpeg_read_size;

namespace {

// A smooth picture, which JPEG keeps well.
std::vector<std::uint8_t> picture(std::size_t height, std::size_t width, std::size_t channels) {
    std::vector<std::uint8_t> pixels(height * width * channels);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        const double x = static_cast<double>(i / channels % width) / 20;
        const double y = static_cast<double>(i / channels / width) / 20;
        pixels[i] = static_cast<std::uint8_t>(128 + 100 * std::sin(x + y));
    }
    return pixels;
}

std::vector<std::uint8_t> encoded(std::size_t height, std::size_t width, std::size_t channels) {
    const auto pixels = picture(height, width, channels);
    const frame_view frame{pixels.data(), height, width, channels,
                           static_cast<std::ptrdiff_t>(width * channels)};
    jpeg_bytes bytes;
    REQUIRE(jpeg_encode(frame, 95, bytes));
    return {bytes.data.get(), bytes.data.get() + bytes.size};
}

void decode(const std::vector<std::uint8_t>& data) {
    const auto size = jpeg_read_size(data);
    std::vector<std::uint8_t> pixels(size.height * size.width * 3);
    (void)jpeg_decode(data, size, pixels.data());
}

}  // namespace

TEST_CASE("what was encoded decodes to nearly the same picture") {
    const std::size_t channels = GENERATE(1U, 3U, 4U);
    const auto data = encoded(70, 101, channels);
    const auto size = jpeg_read_size(data);
    REQUIRE(size.height == 70);
    REQUIRE(size.width == 101);
    std::vector<std::uint8_t> pixels(70 * 101 * 3);
    REQUIRE(jpeg_decode(data, size, pixels.data()));
    const auto original = picture(70, 101, channels);
    int worst = 0;
    for (std::size_t pixel = 0; pixel < 70 * 101; ++pixel)
        worst = std::max(worst, std::abs(pixels[pixel * 3] - original[pixel * channels]));
    CHECK(worst <= 12);
}

TEST_CASE("every truncation of a file is an error") {
    const auto whole = encoded(40, 40, 3);
    for (std::size_t length = 0; length + 2 < whole.size(); length += 7) {
        CAPTURE(length);
        const std::vector<std::uint8_t> part(whole.begin(),
                                             whole.begin() + static_cast<std::ptrdiff_t>(length));
        CHECK_THROWS_AS(decode(part), std::invalid_argument);
    }
}

TEST_CASE("damage anywhere ends in pixels or in an exception, never in a crash") {
    const auto whole = encoded(40, 40, 3);
    std::mt19937 generator(12);
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
        auto damaged = whole;
        for (int hit = 0; hit < 4; ++hit)
            damaged[generator() % damaged.size()] = static_cast<std::uint8_t>(generator());
        try {
            decode(damaged);
        } catch (const std::invalid_argument&) {
            ++refused;
        }
    }
    CHECK(refused > 0);
}

TEST_CASE("what is no JPEG is refused in libjpeg's words") {
    const std::vector<std::uint8_t> text{'h', 'e', 'l', 'l', 'o'};
    CHECK_THROWS_WITH(jpeg_read_size(text), Contains("jpeg_decode: Not a JPEG"));
    CHECK_THROWS_WITH(jpeg_read_size({}), Contains("empty"));
}

TEST_CASE("data that changed its size after the header was read is refused") {
    const auto data = encoded(16, 16, 3);
    std::vector<std::uint8_t> pixels(16 * 8 * 3);
    CHECK_THROWS_WITH((void)jpeg_decode(data, {16, 8}, pixels.data()), Contains("changed"));
}

TEST_CASE("a stopped decode and a stopped encode leave early") {
    collecting_home home;
    lambda_job job(home, [](lambda_job&) {});
    job.request_stop();
    const execution how{&job, nullptr};
    const auto data = encoded(64, 64, 3);
    std::vector<std::uint8_t> pixels(64 * 64 * 3);
    CHECK_FALSE(jpeg_decode(data, {64, 64}, pixels.data(), how));
    jpeg_bytes bytes;
    CHECK_FALSE(jpeg_encode({pixels.data(), 64, 64, 3, 64 * 3}, 90, bytes, how));
}

TEST_CASE("an encode that is stopped after its output has grown frees it once") {
    const std::size_t side = 1500;
    const auto noise = kernel_tests::random_bytes(side * side * 3);
    for (int round = 0; round < 12; ++round) {
        collecting_home home;
        lambda_job job(home, [](lambda_job&) {});
        std::thread stopping([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
            job.request_stop();
        });
        jpeg_bytes bytes;
        const bool finished = jpeg_encode({noise.data(), side, side, 3, side * 3}, 90, bytes,
                                          execution{&job, nullptr});
        stopping.join();
        const bool whole =
            bytes.size > side * side / 2 && bytes.data.get()[bytes.size - 1] == 0xD9;
        CHECK(finished == whole);
    }
}

TEST_CASE("bad qualities and impossible sizes are refused before any work") {
    const std::vector<std::uint8_t> pixels(12);
    jpeg_bytes bytes;
    CHECK_THROWS_WITH((void)jpeg_encode({pixels.data(), 2, 2, 3, 6}, 0, bytes),
                      Contains("1 to 100"));
    CHECK_THROWS_WITH((void)jpeg_encode({pixels.data(), 70000, 1, 1, 0}, 90, bytes),
                      Contains("65500"));
}
