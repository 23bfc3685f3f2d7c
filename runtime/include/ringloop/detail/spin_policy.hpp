// spin_policy: how long to look at memory before sleeping.
//
// Spinning pays while sleeps end within tens of microseconds: it starts after four such sleeps in a
// row and stops at the first spin in vain, since what it waits for may need this very processor
// (kernels run at low priority). Never in a process that has one processor only.
// Thread: its owner's.
#pragma once

#include <cstdint>

#include "ringloop/detail/processors.hpp"

namespace ringloop::detail {

struct spin_policy {
    static constexpr std::int64_t spin_ns = 20'000;
    static constexpr std::int64_t short_sleep_ns = 40'000;  // asleep: the wake-up alone costs half
    // Of Python's loop, after a spin that a call from another Python thread has ended: until that
    // thread waits for the answer and leaves the GIL. To ask for it at once is to sleep for it.
    static constexpr std::int64_t grace_ns = 2'000;
    static constexpr int start = 4;
    bool allowed = has_several_processors();
    int short_sleeps = 0;  // in a row, up to `start`

    [[nodiscard]] std::int64_t budget_ns() const noexcept {
        return allowed && short_sleeps == start ? spin_ns : 0;
    }
    void slept(std::int64_t duration_ns) noexcept {
        const bool spun = budget_ns() != 0;
        if (duration_ns > (spun ? spin_ns : short_sleep_ns)) {
            short_sleeps = 0;
        } else if (short_sleeps < start) {
            ++short_sleeps;
        }
    }
};

}  // namespace ringloop::detail
