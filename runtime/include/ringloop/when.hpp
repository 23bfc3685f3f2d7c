// Combinators: a task with a stop token, with a time limit, out of a stop's reach; several at once,
// all of them or the first.
//
// All wait for what they started: nothing is left behind. Thread: the awaiting task's scheduler's,
// where all that they start runs, too. Cancel: passed on to the tasks, but by shield().
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

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

// The same for any number of tasks of one type.
template <class T>
requires(!std::is_void_v<T>) task<std::vector<T>> when_all(std::vector<task<T>> work) {
    std::vector<result<T>> outcomes(work.size());
    co_await with_group([&](task_group& group) -> task<void> {
        for (std::size_t i = 0; i < work.size(); ++i)
            group.spawn(detail::into(std::move(work[i]), outcomes[i]));
        co_return;
    });
    std::vector<T> values;
    values.reserve(outcomes.size());
    for (result<T>& outcome : outcomes) values.push_back(outcome.take());
    co_return values;
}

namespace detail {

template <class T>
using value_or_monostate = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

// Puts the value of `work` into `first`, as alternative I, unless somebody was faster; and stops
// the group.
template <std::size_t I, class T, class Variant>
task<void> race(task<T> work, std::optional<Variant>& first, task_group& group) {
    if constexpr (std::is_void_v<T>) {
        co_await std::move(work);
        if (!first) first.emplace(std::in_place_index<I>);
    } else {
        T value = co_await std::move(work);
        if (!first) first.emplace(std::in_place_index<I>, std::move(value));
    }
    group.cancel();
}

template <class T>
task<void> race_of_many(task<T> work, std::size_t index,
                        std::optional<std::pair<std::size_t, T>>& first, task_group& group) {
    T value = co_await std::move(work);
    if (!first) first.emplace(index, std::move(value));
    group.cancel();
}

}  // namespace detail

// The first of them: index() says which. The others are stopped and waited for; a value of theirs
// that came all the same is dropped. A failure stops the others, too, and is thrown, also one that
// came after the first value.
template <class... T>
requires(sizeof...(T) >
         0) task<std::variant<detail::value_or_monostate<T>...>> when_any(task<T>... work) {
    std::optional<std::variant<detail::value_or_monostate<T>...>> first;
    std::tuple<task<T>...> tasks(std::move(work)...);
    co_await with_group([&](task_group& group) -> task<void> {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (group.spawn(detail::race<I>(std::move(std::get<I>(tasks)), first, group)), ...);
        }
        (std::index_sequence_for<T...>{});
        co_return;
    });
    co_return std::move(*first);
}

// The same for any number of tasks of one type, at least one: index and value. Throws
// std::invalid_argument for none.
template <class T>
requires(!std::is_void_v<T>) task<std::pair<std::size_t, T>> when_any(std::vector<task<T>> work) {
    if (work.empty()) throw std::invalid_argument("ringloop::when_any: no tasks");
    std::optional<std::pair<std::size_t, T>> first;
    co_await with_group([&](task_group& group) -> task<void> {
        for (std::size_t i = 0; i < work.size(); ++i)
            group.spawn(detail::race_of_many(std::move(work[i]), i, first, group));
        co_return;
    });
    co_return std::move(*first);
}

// Runs `work` out of reach of a stop of the awaiting coroutine: its end is waited for, and its
// value returned, nothing lost; the stop shows at the next await.
template <class T>
task<T> shield(task<T> work) {
    const stop_scope* const outer = co_await current_scope();
    stop_scope apart;
    if (outer != nullptr) apart.set_owner(outer->owner());
    co_return co_await std::move(work).in(apart);
}

}  // namespace ringloop
