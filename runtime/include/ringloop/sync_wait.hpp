// sync_wait: runs a task from a plain function, on this thread, until it has ended.
//
// Returns its value or throws its exception. With a stop token the task is asked to stop when the
// token is; what it then throws (operation_cancelled, if it does not handle it) is thrown here.
// Must not be called from inside a coroutine: it would block the scheduler's thread. On the same
// scheduler, inside of a turn, it throws std::logic_error.
#pragma once

#include <stop_token>
#include <utility>

#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

namespace detail {

// The outermost coroutine: not awaited by anybody; notes that it has ended.
class root {
  public:
    struct promise_type : promise_base {
        root get_return_object() noexcept {
            return root(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
    explicit root(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    root(root&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    root& operator=(root&&) = delete;
    ~root() {
        if (handle_) handle_.destroy();
    }

    // Turns of `home` until the coroutine has ended. `wants_stop` (optional) is asked once a turn
    // and before each sleep; true stops the scope.
    void run(scheduler& home, stop_scope& scope, const std::stop_token& token,
             bool (*wants_stop)(void*) = nullptr, void* context = nullptr);

  private:
    std::coroutine_handle<promise_type> handle_;
};

template <class T>
root run_into(task<T> work, result<T>& outcome) {
    try {
        task<T> mine = std::move(work);
        if constexpr (std::is_void_v<T>) {
            co_await std::move(mine);
        } else {
            outcome.set_value(co_await std::move(mine));
        }
    } catch (...) {
        outcome.set_error(std::current_exception());
    }
}

}  // namespace detail

template <class T>
T sync_wait(scheduler& home, task<T> work, const std::stop_token& token = {}) {
    result<T> outcome;
    {
        detail::root root = detail::run_into(std::move(work), outcome);
        stop_scope scope;
        root.run(home, scope, token);
    }
    return outcome.take();
}

// On a scheduler of its own.
template <class T>
T sync_wait(task<T> work, const driver_config& config = {}, const std::stop_token& token = {}) {
    driver_config here = config;
    here.pinned = true;
    scheduler home(here);
    return sync_wait(home, std::move(work), token);
}

}  // namespace ringloop
