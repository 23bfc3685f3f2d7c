// How libjpeg's errors leave its C code: error_exit keeps the message and jumps back to the frame
// that called setjmp. That frame must own nothing with a destructor, and no C++ exception may cross
// libjpeg; what the frame returns is turned into an exception by its caller.
#pragma once

#include <csetjmp>
#include <cstdio>

extern "C" {
#include <jpeglib.h>
// after jpeglib.h, whose configuration decides how the messages are numbered
#include <jerror.h>
}

namespace ringloop::kernels {

enum class jpeg_outcome { finished, stopped, failed, no_memory };

struct jpeg_trap {
    jpeg_error_mgr manager;  // first: libjpeg hands back a pointer to it
    std::jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    bool no_memory;
    jpeg_outcome outcome;  // what the jump means
};

// Fills the trap; the result goes into the codec's `err`.
jpeg_error_mgr* install(jpeg_trap& trap) noexcept;

// Leaves libjpeg's code: setjmp returns a second time in the frame that owns the trap.
[[noreturn]] void jump(jpeg_trap& trap, jpeg_outcome outcome) noexcept;

// Throws what the trap holds: std::bad_alloc or std::invalid_argument("<who>: <libjpeg's words>").
[[noreturn]] void throw_trapped(const jpeg_trap& trap, const char* who);

}  // namespace ringloop::kernels
