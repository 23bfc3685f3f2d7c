// sleep_for, sleep_until, yield: giving up the thread for a time, or for one turn.
//
// Never early; time is the driver's monotonic clock. Cancel: throws operation_cancelled at once;
// nothing to lose. Stop scopes: see stop.hpp.
#pragma once

#include <chrono>
#include <coroutine>

#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

namespace detail {

class sleep_await : private timer, private stop_waiter {
  public:
    sleep_await(std::int64_t time_ns, bool absolute) noexcept
        : timer(&sleep_await::fire),
          stop_waiter(&sleep_await::ask_to_stop),
          time_ns_(time_ns),
          absolute_(absolute) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, scope_of(handle));
    }
    void await_resume() const;  // throws operation_cancelled

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    static void fire(timer& self) noexcept;
    static void ask_to_stop(stop_waiter& self) noexcept;

    std::int64_t time_ns_;
    bool absolute_;
    bool stopped_ = false;
    scheduler* home_ = nullptr;
    std::coroutine_handle<> waiting_;
};

}  // namespace detail

// tidy-allow: banned because this one suspends a coroutine, not a thread
[[nodiscard]] inline detail::sleep_await sleep_for(std::chrono::nanoseconds duration) noexcept {
    return {duration.count(), false};
}
// `deadline_ns` on scheduler::now_ns()'s clock.
[[nodiscard]] inline detail::sleep_await sleep_until(std::int64_t deadline_ns) noexcept {
    return {deadline_ns, true};
}

// Lets everything else that is ready, and I/O, go first.
struct yield {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        scope = detail::scope_of(handle);
        if (scope != nullptr && scope->stop_requested()) return false;
        put_behind(handle);
        return true;
    }
    void await_resume() const;  // throws operation_cancelled
    void put_behind(std::coroutine_handle<> handle) const;
    stop_scope* scope = nullptr;
};

}  // namespace ringloop
