// turn_limit: how many I/O completions a turn takes.
//
// All that are there, as long as callbacks are quick. Where turns become long, fewer: each wakes
// handles that run in the next turn, and timers and everybody else wait for all of them. What is
// left over counts as not polled yet, as events beyond epoll's own maximum do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringloop::python {

class turn_limit {
  public:
    [[nodiscard]] std::size_t completions_max() const noexcept { return max_; }

    // After each turn: how long its callbacks took, and whether completions were left over.
    void turned(std::int64_t busy_ns, bool left_over) noexcept {
        if (busy_ns > long_ns) {
            max_ = std::max(least, max_ / 2);
        } else if (left_over && busy_ns < short_ns) {
            max_ = std::min(most, max_ * 2);
        }
    }

  private:
    static constexpr std::int64_t long_ns = 1'000'000;
    static constexpr std::int64_t short_ns = 250'000;
    static constexpr std::size_t least = 8;
    static constexpr std::size_t most = 1024;
    std::size_t max_ = most;
};

}  // namespace ringloop::python
