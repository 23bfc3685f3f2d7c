// interval: ticks at equal distances, without drift.
//
//     interval every(std::chrono::seconds(1));
//     while (true) { co_await every.next(); … }
//
// The n-th tick is due n periods after the interval was made, however long the work between two
// took. Ticks that were missed are skipped: next() says how many periods have passed since the
// last, 1 if none was.
// Time is the driver's monotonic clock; never early. Thread: one scheduler's.
// Cancel: next() throws operation_cancelled; no tick is lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

class interval {
  public:
    // On the running scheduler. Throws std::invalid_argument unless the period is positive.
    explicit interval(std::chrono::nanoseconds period)
        : period_ns_(period.count()), due_ns_(detail::running_scheduler().now_ns()) {
        if (period_ns_ <= 0)
            throw std::invalid_argument("ringloop::interval: the period must be positive");
        add_periods(1);
    }
    [[nodiscard]] task<std::uint64_t> next() {
        co_await sleep_until(due_ns_);
        const std::int64_t late_ns = detail::running_scheduler().now_ns() - due_ns_;
        const std::int64_t periods = 1 + std::max<std::int64_t>(late_ns, 0) / period_ns_;
        add_periods(periods);
        co_return static_cast<std::uint64_t>(periods);
    }

  private:
    // Stays at the end of time rather than beyond it.
    void add_periods(std::int64_t count) noexcept {
        if (__builtin_mul_overflow(count, period_ns_, &count) ||
            __builtin_add_overflow(due_ns_, count, &due_ns_))
            due_ns_ = no_deadline;
    }
    const std::int64_t period_ns_;
    std::int64_t due_ns_;
};

}  // namespace ringloop
