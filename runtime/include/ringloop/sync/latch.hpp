// latch: waits until a count has come down to zero. Used once.
//
//     latch done(3);
//     done.count_down();          three times, by whomever
//     co_await done.wait();
//
// Thread: one scheduler's. Lifetime: it outlives its waiters.
// Cancel: wait() throws operation_cancelled; nothing to lose. arrive_and_wait() has counted by
// then.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "ringloop/sync/event.hpp"

namespace ringloop {

class latch {
  public:
    explicit latch(std::size_t count) noexcept : left_(count), zero_(count == 0) {}
    // Throws std::invalid_argument below zero.
    void count_down(std::size_t by = 1) {
        if (by > left_) throw std::invalid_argument("ringloop::latch: counted down below zero");
        left_ -= by;
        if (left_ == 0) zero_.set();
    }
    [[nodiscard]] std::size_t left() const noexcept { return left_; }
    [[nodiscard]] event::wait_await wait() noexcept { return zero_.wait(); }
    [[nodiscard]] event::wait_await arrive_and_wait(std::size_t by = 1) {
        count_down(by);
        return wait();
    }

  private:
    std::size_t left_;
    event zero_;
};

}  // namespace ringloop
