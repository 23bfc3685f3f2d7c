// stall_watch: how long a loop goes without looking at its I/O, and what it did meanwhile.
//
// A span begins when a wait or a poll returns and ends when the next one begins. It is divided
// among the parts below. Off by default, and then nothing reads a clock. Thread: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringloop::python {

class stall_watch {
  public:
    enum part : std::uint8_t {
        native_code,  // coroutines and completions of native code, without the GIL
        gil,          // waiting for it
        callbacks,    // handles, tasks and timers of the program
        io,           // completions, and the protocols that they were told to
        loop,         // the rest: what was written is handed to the kernel
    };
    static constexpr std::size_t parts = 5;
    using shares = std::array<std::int64_t, parts>;  // nanoseconds

    // 0: off.
    void set_limit(std::int64_t limit_ns) noexcept {
        limit_ns_ = limit_ns;
        begin_ns_ = none;
    }
    [[nodiscard]] std::int64_t limit_ns() const noexcept { return limit_ns_; }
    [[nodiscard]] bool on() const noexcept { return limit_ns_ > 0; }

    void begin(std::int64_t now_ns) noexcept {
        begin_ns_ = mark_ns_ = now_ns;
        shares_ = {};
    }
    // What has passed since the last mark was spent on that.
    void mark(part what, std::int64_t now_ns) noexcept {
        shares_[what] += now_ns - mark_ns_;
        mark_ns_ = now_ns;
    }
    // Whether the span that ends now was too long: `*spent` is what it went to.
    [[nodiscard]] bool end(std::int64_t now_ns, shares& spent) noexcept {
        if (begin_ns_ == none) return false;
        mark(loop, now_ns);
        const bool stalled = now_ns - begin_ns_ >= limit_ns_;
        begin_ns_ = none;
        spent = shares_;
        return stalled;
    }

  private:
    static constexpr std::int64_t none = INT64_MIN;
    std::int64_t limit_ns_ = 0;
    std::int64_t begin_ns_ = none;
    std::int64_t mark_ns_ = 0;
    shares shares_{};
};

}  // namespace ringloop::python
