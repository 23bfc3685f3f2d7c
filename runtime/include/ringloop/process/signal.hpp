// signal_set: signals as values to wait for.
//
//     signal_set signals(SIGHUP, SIGUSR1);
//     while (true) {
//         if (co_await signals.next() == SIGHUP) …
//     }
//
// From the constructor on the signals have none of their usual effects, on whatever thread of the
// process they arrive; each one that arrives is told once. Of several kinds that wait, the first
// that the constructor names goes first. Waiting needs no thread and blocks no signal.
// Only one set in a process may have a signal at a time. The destructor puts the dispositions back
// that the constructor found, but not where somebody else has set one meanwhile; signals that came
// and that nobody took go with it.
// Lifetime: move-only; no next() may be under way at its end. Thread: one at a time.
// Errors: std::logic_error for a signal that another set has, or that is named twice;
// std::invalid_argument for one that does not exist or cannot be waited for (SIGKILL, SIGSEGV …).
// Inside ringloop::run() a set may take SIGINT or SIGTERM: they then stop nothing until its end.
#pragma once

#include <array>
#include <concepts>
#include <csignal>
#include <memory>
#include <span>

#include "ringloop/task.hpp"

namespace ringloop {

namespace detail {
class signal_catcher;
}

class signal_set {
  public:
    template <std::same_as<int>... Numbers>
    explicit signal_set(int first, Numbers... others)
        : signal_set(
              std::span<const int>(std::array<int, 1 + sizeof...(Numbers)>{first, others...})) {}
    explicit signal_set(std::span<const int> numbers);
    signal_set(signal_set&&) noexcept;
    signal_set& operator=(signal_set&&) noexcept;
    ~signal_set();

    // The number of the next one. Any number of coroutines may wait; each signal goes to one of
    // them. Cancel loses nothing.
    [[nodiscard]] task<int> next();

  private:
    static task<int> next_of(detail::signal_catcher& catcher);
    std::unique_ptr<detail::signal_catcher> catcher_;
};

}  // namespace ringloop
