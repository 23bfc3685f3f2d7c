// Frames in bands of rows: what every filter shares. The filters themselves are in filter_rows.hpp.
// Works on any thread; allocates a few rows a band.
#include "ringloop/kernels/frame_filter.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "blocks.hpp"
#include "filter_rows.hpp"
#include "text.hpp"

namespace ringloop::kernels {
namespace {

constexpr std::size_t band_bytes = std::size_t{512} * 1024;  // of output: about a millisecond

// Filters rows [first, last). Input rows are widened by `reach` pixels on each side, so that the
// loops over a row know no border.
template <class Filter>
void filter_band(const frame_view& frame, std::size_t first, std::size_t last,
                 std::uint8_t* filtered) {
    constexpr std::size_t reach = Filter::reach;
    constexpr std::size_t window = 2 * reach + 1;
    const std::size_t length = frame.width * frame.channels;
    const std::size_t margin = reach * frame.channels;
    const std::size_t padded = length + 2 * margin;
    std::vector<std::uint8_t> rows(window * padded);
    Filter filter(padded);

    const auto load = [&](std::ptrdiff_t row) {  // row y lives in slot y mod window
        const auto inside =
            std::clamp<std::ptrdiff_t>(row, 0, static_cast<std::ptrdiff_t>(frame.height) - 1);
        const std::uint8_t* from = frame.data + inside * frame.row_stride;
        const auto slot = static_cast<std::size_t>(row + static_cast<std::ptrdiff_t>(window));
        std::uint8_t* to = rows.data() + slot % window * padded;
        std::memcpy(to + margin, from, length);
        for (std::size_t pixel = 0; pixel < reach; ++pixel) {
            std::memcpy(to + pixel * frame.channels, from, frame.channels);
            std::memcpy(to + margin + length + pixel * frame.channels,
                        from + length - frame.channels, frame.channels);
        }
    };
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto reach_rows = static_cast<std::ptrdiff_t>(reach);
    for (std::ptrdiff_t row = begin - reach_rows; row < begin + reach_rows; ++row) load(row);
    for (std::size_t row = first; row < last; ++row) {
        load(static_cast<std::ptrdiff_t>(row) + reach_rows);
        const std::uint8_t* around[window];
        for (std::size_t step = 0; step < window; ++step)
            around[step] = rows.data() + (row + step + window - reach) % window * padded;
        filter.row(around, filtered + row * length, length, frame.channels);
    }
}

void copy_alpha(const frame_view& frame, std::size_t first, std::size_t last,
                std::uint8_t* filtered) {
    for (std::size_t row = first; row < last; ++row) {
        const std::uint8_t* from = frame.data + static_cast<std::ptrdiff_t>(row) * frame.row_stride;
        std::uint8_t* to = filtered + row * frame.width * 4;
        for (std::size_t pixel = 0; pixel < frame.width; ++pixel)
            to[pixel * 4 + 3] = from[pixel * 4 + 3];
    }
}

void filter_rows(const frame_view& frame, filter_kind kind, std::size_t first, std::size_t last,
                 std::uint8_t* filtered) {
    switch (kind) {
        case filter_kind::gaussian5:
            filter_band<gaussian5_rows>(frame, first, last, filtered);
            break;
        case filter_kind::box3:
            filter_band<box3_rows>(frame, first, last, filtered);
            break;
        case filter_kind::sobel:
            filter_band<sobel_rows>(frame, first, last, filtered);
            break;
        case filter_kind::sharpen:
            filter_band<sharpen_rows>(frame, first, last, filtered);
            break;
    }
    if (frame.channels == 4) copy_alpha(frame, first, last, filtered);
}

}  // namespace

filter_kind filter_named(std::string_view name) {
    if (name == "gaussian5") return filter_kind::gaussian5;
    if (name == "box3") return filter_kind::box3;
    if (name == "sobel") return filter_kind::sobel;
    if (name == "sharpen") return filter_kind::sharpen;
    throw std::invalid_argument(text("frame_filter: no filter is called '", name,
                                     "'; there are gaussian5, box3, sobel and sharpen"));
}

void check_frame(const frame_view& frame) {
    const std::string shape = text("(", frame.height, ", ", frame.width, ", ", frame.channels, ")");
    if (frame.channels != 1 && frame.channels != 3 && frame.channels != 4)
        throw std::invalid_argument(
            text("a frame has 1, 3 or 4 channels; this one has shape ", shape));
    if (frame.height == 0 || frame.width == 0)
        throw std::invalid_argument(text("the frame is empty, its shape is ", shape));
}

bool frame_filter(const frame_view& frame, filter_kind kind, std::uint8_t* filtered,
                  const execution& how) {
    check_frame(frame);
    const std::size_t length = frame.width * frame.channels;
    const std::size_t band = std::max<std::size_t>(1, band_bytes / length);
    return for_blocks(how, (frame.height + band - 1) / band, [&](std::size_t index) {
        const std::size_t first = index * band;
        filter_rows(frame, kind, first, std::min(frame.height, first + band), filtered);
        return true;
    });
}

}  // namespace ringloop::kernels
