// owner_sleep(): the wait of who owns a scheduler's thread, run() and sync_wait().
//
// What is on its way back from another thread (away.hpp) comes within microseconds, or much later:
// the processor looks for a moment before it sleeps, as Python's loop does. A wake-up costs both
// sides more than the work that an await of Python's is. Sockets and timers alone are slept for.
// Thread: the scheduler's.
#pragma once

#include "ringloop/detail/spin_policy.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::detail {

inline void owner_sleep(scheduler& home, spin_policy& spin, bool (*has_work)(void*) = nullptr,
                        void* context = nullptr) noexcept {
    if (!home.is_held() || !spin.allowed) {
        home.wait(no_deadline, 0, has_work, context);
        return;
    }
    const std::int64_t begin_ns = home.now_ns();
    home.wait(no_deadline, spin.budget_ns(), has_work, context);
    spin.slept(home.now_ns() - begin_ns);
}

}  // namespace ringloop::detail
