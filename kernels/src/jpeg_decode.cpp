// The decoder. run() is the frame that libjpeg jumps back to; everything it uses lives in `reader`.
#include <cstring>
#include <stdexcept>

#include "jpeg_errors.hpp"
#include "ringloop/kernels/jpeg.hpp"
#include "text.hpp"

namespace ringloop::kernels {
namespace {

constexpr JDIMENSION rows_per_look = 64;

struct reader {
    jpeg_decompress_struct codec;
    jpeg_trap trap;
    jpeg_progress_mgr progress;
    std::span<const std::uint8_t> data;
    const execution* how;
    std::uint8_t* pixels;
    jpeg_size size;
    bool whole;  // false: the header only
};

// libjpeg reports here between rows of blocks, also while it collects the scans of a progressive
// file, which a single read call may do for long.
void look_around(j_common_ptr codec) {
    auto* self = static_cast<reader*>(codec->client_data);
    if (self->codec.input_scan_number > jpeg_scans_max) {
        std::snprintf(self->trap.message, sizeof self->trap.message,
                      "the file has more than %d scans, which only makes sense as an attack",
                      jpeg_scans_max);
        jump(self->trap, jpeg_outcome::failed);
    }
    if (self->how->stop_requested()) jump(self->trap, jpeg_outcome::stopped);
}

jpeg_outcome read_rows(reader& self) {
    jpeg_decompress_struct& codec = self.codec;
    codec.out_color_space = JCS_RGB;
    codec.progress = &self.progress;
    self.progress.progress_monitor = look_around;
    jpeg_start_decompress(&codec);
    if (codec.output_height != self.size.height || codec.output_width != self.size.width ||
        codec.output_components != 3) {
        std::snprintf(self.trap.message, sizeof self.trap.message,
                      "the data changed after its size was read");
        return jpeg_outcome::failed;
    }
    const std::size_t length = self.size.width * 3;
    while (codec.output_scanline < codec.output_height) {
        if (codec.output_scanline % rows_per_look == 0 && self.how->stop_requested())
            return jpeg_outcome::stopped;
        JSAMPROW row = self.pixels + codec.output_scanline * length;
        jpeg_read_scanlines(&codec, &row, 1);
    }
    jpeg_finish_decompress(&codec);
    return jpeg_outcome::finished;
}

jpeg_outcome run(reader& self) {
    std::memset(&self.codec, 0, sizeof self.codec);
    self.codec.err = install(self.trap);
    // tidy-allow: banned because libjpeg knows no other way out of an error
    if (setjmp(self.trap.back) != 0) {
        jpeg_destroy_decompress(&self.codec);
        return self.trap.outcome;
    }
    jpeg_CreateDecompress(&self.codec, JPEG_LIB_VERSION, sizeof self.codec);
    self.codec.client_data = &self;
    jpeg_mem_src(&self.codec, self.data.data(), self.data.size());
    jpeg_read_header(&self.codec, TRUE);
    jpeg_outcome outcome = jpeg_outcome::finished;
    if (self.whole) {
        outcome = read_rows(self);
    } else {
        self.size = {self.codec.image_height, self.codec.image_width};
        if (self.codec.jpeg_color_space == JCS_CMYK || self.codec.jpeg_color_space == JCS_YCCK) {
            std::snprintf(self.trap.message, sizeof self.trap.message,
                          "the image is CMYK, for print; convert it to RGB first");
            outcome = jpeg_outcome::failed;
        }
    }
    jpeg_destroy_decompress(&self.codec);
    return outcome;
}

}  // namespace

jpeg_size jpeg_read_size(std::span<const std::uint8_t> data) {
    if (data.empty()) throw std::invalid_argument("jpeg_decode: the data is empty, it has 0 bytes");
    const execution unstoppable;
    reader self{};
    self.data = data;
    self.how = &unstoppable;
    if (run(self) != jpeg_outcome::finished) throw_trapped(self.trap, "jpeg_decode");
    if (self.size.height * self.size.width > jpeg_pixels_max)
        throw std::invalid_argument(text("jpeg_decode: the image has ", self.size.width, " x ",
                                         self.size.height, " pixels; the limit is ",
                                         jpeg_pixels_max));
    return self.size;
}

bool jpeg_decode(std::span<const std::uint8_t> data, jpeg_size size, std::uint8_t* pixels,
                 const execution& how) {
    const compute_scope counted;
    reader self{};
    self.data = data;
    self.how = &how;
    self.pixels = pixels;
    self.size = size;
    self.whole = true;
    const jpeg_outcome outcome = run(self);
    if (outcome == jpeg_outcome::failed) throw_trapped(self.trap, "jpeg_decode");
    return outcome == jpeg_outcome::finished;
}

}  // namespace ringloop::kernels
