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
        : period_ns_(period.count()),
          due_ns_(detail::running_scheduler().now_ns() + period.count()) {
        if (period_ns_ <= 0)
            throw std::invalid_argument("ringloop::interval: the period must be positive");
    }
    [[nodiscard]] task<std::uint64_t> next() {
        co_await sleep_until(due_ns_);
        const std::int64_t late_ns = detail::running_scheduler().now_ns() - due_ns_;
        const std::int64_t periods = 1 + std::max<std::int64_t>(late_ns, 0) / period_ns_;
        due_ns_ += periods * period_ns_;
        co_return static_cast<std::uint64_t>(periods);
    }

  private:
    const std::int64_t period_ns_;
    std::int64_t due_ns_;
};

}  // namespace ringloop
