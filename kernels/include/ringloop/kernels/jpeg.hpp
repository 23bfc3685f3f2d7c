// JPEG in and out by libjpeg-turbo, each on one thread; the stop flag is looked at every few rows.
// Damaged and truncated data is an error (std::invalid_argument with libjpeg's own words), as are
// images of more pixels than pixels_max. See execution.hpp for threads and stopping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "ringloop/kernels/execution.hpp"
#include "ringloop/kernels/frame_filter.hpp"

namespace ringloop::kernels {

inline constexpr std::size_t jpeg_pixels_max = std::size_t{1} << 27;  // 400 MB decoded
inline constexpr int jpeg_scans_max = 200;  // a small progressive file may ask for hours of work

struct jpeg_size {
    std::size_t height;
    std::size_t width;
};

// Reads the header alone: some microseconds.
[[nodiscard]] jpeg_size jpeg_read_size(std::span<const std::uint8_t> data);

// Writes height x width x 3 bytes (red, green, blue; grey images too) to `pixels`, for the size
// that jpeg_read_size told. False: stopped early.
[[nodiscard]] bool jpeg_decode(std::span<const std::uint8_t> data, jpeg_size size,
                               std::uint8_t* pixels, const execution& how = {});

struct jpeg_bytes {
    struct release {
        void operator()(unsigned char* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<unsigned char, release> data;
    std::size_t size = 0;
};

// Throws std::invalid_argument unless the frame is one that check_frame takes, at most 65500 pixels
// each way, and quality is 1 to 100.
void check_encode(const frame_view& frame, int quality);

// 4:2:0, baseline. Of four channels the fourth (alpha) is left out. False: stopped early.
[[nodiscard]] bool jpeg_encode(const frame_view& frame, int quality, jpeg_bytes& encoded,
                               const execution& how = {});

}  // namespace ringloop::kernels
