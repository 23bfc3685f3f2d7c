// The encoder. run() is the frame that libjpeg jumps back to; everything it uses lives in `writer`.
#include <cstring>
#include <stdexcept>

#include "jpeg_errors.hpp"
#include "ringloop/kernels/jpeg.hpp"
#include "text.hpp"

namespace ringloop::kernels {
namespace {

constexpr JDIMENSION rows_per_look = 64;

struct writer {
    jpeg_compress_struct codec;
    jpeg_trap trap;
    frame_view frame;
    const execution* how;
    int quality;
    unsigned char* encoded;  // malloc'ed by libjpeg, which also frees what it outgrows
    unsigned long encoded_bytes;
};

void describe(writer& self) {
    jpeg_compress_struct& codec = self.codec;
    codec.image_width = static_cast<JDIMENSION>(self.frame.width);
    codec.image_height = static_cast<JDIMENSION>(self.frame.height);
    codec.input_components = static_cast<int>(self.frame.channels);
    codec.in_color_space = self.frame.channels == 1   ? JCS_GRAYSCALE
                           : self.frame.channels == 3 ? JCS_RGB
                                                      : JCS_EXT_RGBX;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, self.quality, TRUE);
}

jpeg_outcome write_rows(writer& self) {
    jpeg_compress_struct& codec = self.codec;
    jpeg_start_compress(&codec, TRUE);
    while (codec.next_scanline < codec.image_height) {
        if (codec.next_scanline % rows_per_look == 0 && self.how->stop_requested())
            return jpeg_outcome::stopped;
        const auto row = static_cast<std::ptrdiff_t>(codec.next_scanline);
        // libjpeg only reads through this pointer; its type predates const.
        JSAMPROW line = const_cast<JSAMPROW>(self.frame.data + row * self.frame.row_stride);
        jpeg_write_scanlines(&codec, &line, 1);
    }
    jpeg_finish_compress(&codec);
    return jpeg_outcome::finished;
}

// libjpeg tells of the memory that it has moved to at the very end only: until then `encoded` may
// be memory that it has freed.
jpeg_outcome end(writer& self, jpeg_outcome outcome) {
    if (self.codec.dest != nullptr) self.codec.dest->term_destination(&self.codec);
    jpeg_destroy_compress(&self.codec);
    return outcome;
}

jpeg_outcome run(writer& self) {
    std::memset(&self.codec, 0, sizeof self.codec);
    self.codec.err = install(self.trap);
    // tidy-allow: banned because libjpeg knows no other way out of an error
    if (setjmp(self.trap.back) != 0) return end(self, self.trap.outcome);
    jpeg_CreateCompress(&self.codec, JPEG_LIB_VERSION, sizeof self.codec);
    jpeg_mem_dest(&self.codec, &self.encoded, &self.encoded_bytes);
    describe(self);
    return end(self, write_rows(self));
}

}  // namespace

void check_encode(const frame_view& frame, int quality) {
    check_frame(frame);
    if (quality < 1 || quality > 100)
        throw std::invalid_argument(text("jpeg_encode: quality is 1 to 100, not ", quality));
    if (frame.height > JPEG_MAX_DIMENSION || frame.width > JPEG_MAX_DIMENSION)
        throw std::invalid_argument(
            text("jpeg_encode: a JPEG has at most 65500 rows and columns, this frame has ",
                 frame.height, " and ", frame.width));
}

bool jpeg_encode(const frame_view& frame, int quality, jpeg_bytes& encoded, const execution& how) {
    check_encode(frame, quality);
    const compute_scope counted;
    writer self{};
    self.frame = frame;
    self.how = &how;
    self.quality = quality;
    const jpeg_outcome outcome = run(self);
    encoded.data.reset(self.encoded);
    encoded.size = self.encoded_bytes;
    if (outcome == jpeg_outcome::failed) {
        encoded = {};
        throw_trapped(self.trap, "jpeg_encode");
    }
    return outcome == jpeg_outcome::finished;
}

}  // namespace ringloop::kernels
