// run_now: starts a task on this thread without a scheduler; for tasks that never wait, or that the
// test itself resumes.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "ringloop/task.hpp"

namespace test {

class started {
  public:
    struct promise_type : ringloop::detail::promise_base {
        started get_return_object() noexcept {
            return started(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
    explicit started(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    started(started&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    started& operator=(started&&) = delete;
    ~started() {
        if (handle_) handle_.destroy();
    }
    void go() { ringloop::detail::resume(handle_); }
    void go_without_trampoline() { handle_.resume(); }
    [[nodiscard]] bool done() const noexcept { return handle_.done(); }

  private:
    std::coroutine_handle<promise_type> handle_;
};

template <class T>
started start_into(ringloop::task<T> work, ringloop::result<T>& outcome) {
    try {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(work);
        } else {
            outcome.set_value(co_await std::move(work));
        }
    } catch (...) {
        outcome.set_error(std::current_exception());
    }
}

template <class T>
T run_now(ringloop::task<T> work) {
    ringloop::result<T> outcome;
    {
        started root = start_into(std::move(work), outcome);
        root.go();
        if (!root.done()) std::terminate();
    }
    return outcome.take();
}

}  // namespace test
