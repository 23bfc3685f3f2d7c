// Combinators: a task with a stop token, with a time limit, several at once.
//
// All wait for what they started: nothing is left behind. Cancel: passed on to the tasks.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/detail/remote_stop.hpp"
#include "ringloop/error.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/task_group.hpp"

namespace ringloop {

// Runs `work` until it ends by itself or `token` is stopped, on any thread; a stop of the awaiting
// coroutine reaches it as well.
template <class T>
task<T> with_stop(std::stop_token token, task<T> work) {
    stop_scope scope(co_await current_scope());
    detail::remote_stop link(token, scope, detail::running_scheduler());
    co_return co_await std::move(work).in(scope);
}

// Thrown by with_timeout() when the time ran out first.
class timed_out : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: the time limit passed";
    }
};

namespace detail {

// Stops a scope when its time has come.
class scope_deadline : private timer {
  public:
    scope_deadline(stop_scope& scope, std::chrono::nanoseconds limit);
    ~scope_deadline();
    scope_deadline(const scope_deadline&) = delete;
    scope_deadline& operator=(const scope_deadline&) = delete;
    [[nodiscard]] bool passed() const noexcept { return passed_; }

  private:
    static void fire(timer& self) noexcept;
    scheduler& home_;
    stop_scope& scope_;
    bool passed_ = false;
};

template <class T>
task<void> into(task<T> work, result<T>& outcome) {
    if constexpr (std::is_void_v<T>) {
        co_await std::move(work);
    } else {
        outcome.set_value(co_await std::move(work));
    }
}

}  // namespace detail

// Ends with timed_out if `work` was stopped by the limit; a result that was faster is returned.
template <class T>
task<T> with_timeout(std::chrono::nanoseconds limit, task<T> work) {
    stop_scope* outer = co_await current_scope();
    stop_scope scope(outer);
    detail::scope_deadline deadline(scope, limit);
    try {
        co_return co_await std::move(work).in(scope);
    } catch (const operation_cancelled&) {
        if (!deadline.passed() || (outer != nullptr && outer->stop_requested())) throw;
    }
    throw timed_out();
}

// All of them: the values in order; the first failure stops the others and is thrown. For tasks
// without a value use a task_group.
template <class... T>
requires((sizeof...(T) > 0) &&
         (!std::is_void_v<T> && ...)) task<std::tuple<T...>> when_all(task<T>... work) {
    std::tuple<result<T>...> outcomes;
    std::tuple<task<T>...> tasks(std::move(work)...);
    co_await with_group([&](task_group& group) -> task<void> {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (group.spawn(detail::into(std::move(std::get<I>(tasks)), std::get<I>(outcomes))), ...);
        }
        (std::index_sequence_for<T...>{});
        co_return;
    });
    co_return std::apply([](auto&... outcome) { return std::tuple<T...>(outcome.take()...); },
                         outcomes);
}

}  // namespace ringloop
