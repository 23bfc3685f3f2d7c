// on: runs a task on another scheduler, of another thread, and resumes here with its outcome.
//
//     auto total = co_await on(pool[1], count(std::move(socket)));
//
// Thread: the task runs and its frame is destroyed on `there`; its value or exception comes over.
// What the task refers to is therefore used by two threads in turn, never at once. `there` must be
// running, or come to run, until the await ends; it may be the awaiting coroutine's own scheduler.
// Cancel: a stop is passed on to the task, and its end awaited; before it has begun:
// operation_cancelled, and the task does not run.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "ringloop/detail/away.hpp"
#include "ringloop/detail/remote_stop.hpp"
#include "ringloop/error.hpp"
#include "ringloop/result.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

namespace detail {

// The coroutine that a task runs in on another scheduler. It is started as a posted node, and when
// it has ended it tells `ended`, on the scheduler's thread, as its last touch.
class crossing {
  public:
    struct listener {
        using function = void (*)(listener&) noexcept;
        explicit listener(function to_call) noexcept : call(to_call) {}
        function call;
    };
    struct promise_type : promise_base {
        struct ending {
            [[nodiscard]] bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<promise_type> handle) const noexcept {
                listener& to_tell = *handle.promise().ended;
                to_tell.call(to_tell);  // may destroy this frame, on its own thread
            }
            void await_resume() const noexcept {}
        };
        crossing get_return_object() noexcept {
            return crossing(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        ending final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
        listener* ended = nullptr;
    };

    crossing(crossing&& other) noexcept : start_(other.start_) { other.start_.handle = nullptr; }
    crossing& operator=(crossing&&) = delete;
    ~crossing() {
        if (start_.handle) start_.handle.destroy();
    }
    // Once; this object stays where it is until `ended` was told.
    void begin(scheduler& there, listener& ended) noexcept {
        start_.handle.promise().ended = &ended;
        there.post(start_);
    }

  private:
    struct start : posted {
        explicit start(std::coroutine_handle<promise_type> to_resume) noexcept
            : posted([](posted& self) noexcept {
                  ringloop::detail::resume(static_cast<start&>(self).handle);
              }),
              handle(to_resume) {}
        std::coroutine_handle<promise_type> handle;
    };
    explicit crossing(std::coroutine_handle<promise_type> handle) noexcept : start_(handle) {}
    start start_;
};

// The body of a crossing: everything in it happens on `there`.
template <class T>
crossing cross(scheduler& there, std::stop_token token, void* owner, task<T> work,
               result<T>& outcome) {
    try {
        task<T> mine = std::move(work);
        stop_scope scope;
        scope.set_owner(owner);
        std::optional<remote_stop> link;
        if (token.stop_possible()) link.emplace(token, scope, there);
        if (scope.stop_requested()) throw operation_cancelled();
        if constexpr (std::is_void_v<T>) {
            co_await std::move(mine).in(scope);
        } else {
            outcome.set_value(co_await std::move(mine).in(scope));
        }
    } catch (...) {
        outcome.set_error(std::current_exception());
    }
}

template <class T>
class on_await : private crossing::listener, private away {
  public:
    on_await(scheduler& there, task<T> work)
        : listener(&on_await::on_end), there_(there), work_(std::move(work)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* scope = scope_of(handle);
        if (scope != nullptr && scope->stop_requested()) {
            outcome_.set_error(std::make_exception_ptr(operation_cancelled()));
            return false;
        }
        const std::stop_token token = scope != nullptr ? scope->token() : std::stop_token();
        void* const owner = scope != nullptr ? scope->owner() : nullptr;
        crossing_.emplace(cross(there_, token, owner, std::move(work_), outcome_));
        leave(handle, [this] { crossing_->begin(there_, *this); });
        return true;
    }
    T await_resume() { return outcome_.take(); }

  private:
    static void on_end(listener& self) noexcept { static_cast<on_await&>(self).come_back(); }

    scheduler& there_;
    task<T> work_;
    std::optional<crossing> crossing_;
    result<T> outcome_;
};

}  // namespace detail

template <class T>
[[nodiscard]] detail::on_await<T> on(scheduler& there, task<T> work) {
    return {there, std::move(work)};
}

}  // namespace ringloop
