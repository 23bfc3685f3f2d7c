// frame_filter: small neighbourhood filters on 8-bit images, in bands of rows. See execution.hpp
// for threads, stopping and errors.
//
// Beyond the border a pixel has the value of the nearest one inside. Results are rounded to
// nearest and clamped to 0..255. Of four channels the fourth is alpha and is copied unchanged.
//  gaussian5  5 x 5 binomial: (1 4 6 4 1) in both directions, over 256
//  box3       mean of the 3 x 3 pixels around
//  sobel      |horizontal gradient| + |vertical gradient|
//  sharpen    five times the pixel less its four neighbours
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ringloop/kernels/execution.hpp"

namespace ringloop::kernels {

enum class filter_kind { gaussian5, box3, sobel, sharpen };

// Throws std::invalid_argument naming the known ones.
[[nodiscard]] filter_kind filter_named(std::string_view name);

// A borrowed image; pixels of a row lie densely, rows `row_stride` bytes apart (may be negative).
struct frame_view {
    const std::uint8_t* data;
    std::size_t height;
    std::size_t width;
    std::size_t channels;  // 1, 3 or 4
    std::ptrdiff_t row_stride;
};

// Throws std::invalid_argument for an empty frame or another number of channels.
void check_frame(const frame_view& frame);

// Writes height x width x channels bytes to `filtered` (dense rows, no overlap with the frame).
// False: stopped early, the result is incomplete.
[[nodiscard]] bool frame_filter(const frame_view& frame, filter_kind kind, std::uint8_t* filtered,
                                const execution& how = {});

}  // namespace ringloop::kernels
