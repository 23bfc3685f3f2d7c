// What libjpeg complains about, judged: error, or nothing worth mentioning. Never prints.
#include "jpeg_errors.hpp"

#include <new>
#include <stdexcept>

#include "text.hpp"

namespace ringloop::kernels {
namespace {

[[noreturn]] void leave(j_common_ptr codec) {
    auto* trap = reinterpret_cast<jpeg_trap*>(codec->err);
    trap->no_memory = codec->err->msg_code == JERR_OUT_OF_MEMORY;
    codec->err->format_message(codec, trap->message);
    jump(*trap, jpeg_outcome::failed);
}

// libjpeg fills what is missing with grey and warns. Missing or undecodable data is an error here;
// harmless oddities (bytes between segments, unknown versions) stay warnings and are not reported.
void judge(j_common_ptr codec, int level) {
    if (level >= 0) return;
    switch (codec->err->msg_code) {
        case JWRN_JPEG_EOF:
        case JWRN_HIT_MARKER:
        case JWRN_HUFF_BAD_CODE:
        case JWRN_MUST_RESYNC:
        case JWRN_BOGUS_PROGRESSION:
        case JWRN_ARITH_BAD_CODE:
            leave(codec);
        default:
            break;
    }
}

void keep_quiet(j_common_ptr) {}

}  // namespace

jpeg_error_mgr* install(jpeg_trap& trap) noexcept {
    jpeg_std_error(&trap.manager);
    trap.manager.error_exit = leave;
    trap.manager.emit_message = judge;
    trap.manager.output_message = keep_quiet;
    trap.message[0] = '\0';
    trap.no_memory = false;
    return &trap.manager;
}

void jump(jpeg_trap& trap, jpeg_outcome outcome) noexcept {
    trap.outcome = outcome;
    // tidy-allow: banned because libjpeg's error handler must not return
    std::longjmp(trap.back, 1);
}

void throw_trapped(const jpeg_trap& trap, const char* who) {
    if (trap.no_memory) throw std::bad_alloc();
    throw std::invalid_argument(text(who, ": ", trap.message));
}

}  // namespace ringloop::kernels
