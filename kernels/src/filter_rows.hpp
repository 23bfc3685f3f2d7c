// One row of each filter. `around` holds the rows above, at and below, each widened by `reach`
// pixels on both sides, so neighbours left and right are `channels` bytes away and always there.
// Loops are plain so that the compiler turns them into vector code; all sums fit in 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace ringloop::kernels {

class gaussian5_rows {
  public:
    static constexpr std::size_t reach = 2;
    explicit gaussian5_rows(std::size_t padded) : down_(padded) {}

    void row(const std::uint8_t* const* around, std::uint8_t* out, std::size_t length,
             std::size_t channels) {
        const std::uint8_t *a = around[0], *b = around[1], *c = around[2], *d = around[3],
                           *e = around[4];
        std::uint16_t* down = down_.data();
        const std::size_t padded = down_.size();
        for (std::size_t i = 0; i < padded; ++i)
            down[i] = static_cast<std::uint16_t>(a[i] + e[i] + 4 * (b[i] + d[i]) + 6 * c[i]);
        for (std::size_t i = 0; i < length; ++i) {
            const auto sum =
                static_cast<std::uint16_t>(down[i] + down[i + 4 * channels] +
                                           4 * (down[i + channels] + down[i + 3 * channels]) +
                                           6 * down[i + 2 * channels] + 128);
            out[i] = static_cast<std::uint8_t>(sum >> 8);  // at most 65408 >> 8
        }
    }

  private:
    std::vector<std::uint16_t> down_;  // the column sums of one row
};

class box3_rows {
  public:
    static constexpr std::size_t reach = 1;
    explicit box3_rows(std::size_t padded) : down_(padded) {}

    void row(const std::uint8_t* const* around, std::uint8_t* out, std::size_t length,
             std::size_t channels) {
        const std::uint8_t *a = around[0], *b = around[1], *c = around[2];
        std::uint16_t* down = down_.data();
        const std::size_t padded = down_.size();
        for (std::size_t i = 0; i < padded; ++i)
            down[i] = static_cast<std::uint16_t>(a[i] + b[i] + c[i]);
        for (std::size_t i = 0; i < length; ++i) {
            const auto sum = static_cast<std::uint16_t>(down[i] + down[i + channels] +
                                                        down[i + 2 * channels] + 4);
            // sum / 9, exact for every sum up to 9 * 255 + 4, as one 16-bit multiplication
            out[i] = static_cast<std::uint8_t>(sum * 7282U >> 16);
        }
    }

  private:
    std::vector<std::uint16_t> down_;
};

class sobel_rows {
  public:
    static constexpr std::size_t reach = 1;
    explicit sobel_rows(std::size_t) {}

    void row(const std::uint8_t* const* around, std::uint8_t* out, std::size_t length,
             std::size_t channels) {
        const std::uint8_t *a = around[0], *b = around[1], *c = around[2];
        const std::size_t right = 2 * channels;
        for (std::size_t i = 0; i < length; ++i) {
            const auto across = static_cast<std::int16_t>(
                (a[i + right] - a[i]) + 2 * (b[i + right] - b[i]) + (c[i + right] - c[i]));
            const auto along =
                static_cast<std::int16_t>((c[i] - a[i]) + 2 * (c[i + channels] - a[i + channels]) +
                                          (c[i + right] - a[i + right]));
            const auto sum = static_cast<std::int16_t>(std::abs(across) + std::abs(along));
            out[i] = static_cast<std::uint8_t>(sum > 255 ? 255 : sum);
        }
    }
};

class sharpen_rows {
  public:
    static constexpr std::size_t reach = 1;
    explicit sharpen_rows(std::size_t) {}

    void row(const std::uint8_t* const* around, std::uint8_t* out, std::size_t length,
             std::size_t channels) {
        const std::uint8_t *a = around[0], *b = around[1], *c = around[2];
        for (std::size_t i = 0; i < length; ++i) {
            const auto sum =
                static_cast<std::int16_t>(5 * b[i + channels] - a[i + channels] - c[i + channels] -
                                          b[i] - b[i + 2 * channels]);
            out[i] = static_cast<std::uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
};

}  // namespace ringloop::kernels
