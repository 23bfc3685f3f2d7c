// outcome<T>: what a function exports that often knows its answer at the call: a value, or a task
// that will have it.
//
//     rl::py::outcome<std::string> look_up(std::string key) {
//         if (const auto* known = cache.find(key)) return *known;
//         return fetch(std::move(key));
//     }
//
// An await of a value costs no more than one of Python's own would. The function itself is a plain
// one: it runs at the call, under the GIL, and its views and borrows end with it. What it throws is
// raised by the call.
// Thread: GIL.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "ringloop/task.hpp"

namespace ringloop::py {

template <class T>
class outcome {
  public:
    using value_type = T;
    template <class U>
    requires std::convertible_to<U&&, T> &&
        (!std::is_same_v<std::decay_t<U>, task<T>>)outcome(U&& value)
        : value_(std::forward<U>(value)) {}
    outcome(task<T> later) noexcept : later_(std::move(later)) {}

    [[nodiscard]] bool known() const noexcept { return value_.has_value(); }
    [[nodiscard]] T take_value() { return std::move(*value_); }
    [[nodiscard]] task<T> take_task() noexcept { return std::move(later_); }

  private:
    std::optional<T> value_;
    task<T> later_;
};

template <>
class outcome<void> {
  public:
    using value_type = void;
    outcome() noexcept = default;  // done
    outcome(task<void> later) noexcept : later_(std::move(later)) {}

    [[nodiscard]] bool known() const noexcept { return !later_; }
    [[nodiscard]] task<void> take_task() noexcept { return std::move(later_); }

  private:
    task<void> later_;
};

namespace detail {

template <class T>
inline constexpr bool is_outcome = false;
template <class T>
inline constexpr bool is_outcome<outcome<T>> = true;

}  // namespace detail
}  // namespace ringloop::py
