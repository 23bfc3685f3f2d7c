// timer_wheel: deadlines of one scheduler. Hierarchical wheel, intrusive; insert, cancel and expiry
// are O(1) amortised.
//
// A timer never fires early, and timers that are due together fire in exact nanosecond order of
// their deadlines (equal ones in order of insertion). Cancel removes at once. Nothing is allocated.
// Thread: the scheduler's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ringloop {

// Lives in its owner; must be out of the wheel (fired or cancelled) before it dies.
struct timer {
    using handler = void (*)(timer&) noexcept;
    explicit timer(handler function = nullptr) noexcept : on_fire(function) {}
    timer(const timer&) = delete;
    timer& operator=(const timer&) = delete;

    handler on_fire;
    std::int64_t deadline_ns = 0;  // absolute, on the driver's clock
    timer* previous = nullptr;
    timer* next = nullptr;
    std::uint64_t sequence = 0;
    std::int16_t slot = -1;  // -1: not in the wheel

    [[nodiscard]] bool armed() const noexcept { return slot >= 0; }
};

class timer_wheel {
  public:
    timer_wheel();
    ~timer_wheel();
    void insert(timer& t, std::int64_t deadline_ns, std::int64_t now_ns) noexcept;
    void cancel(timer& t) noexcept;  // no effect if it is not armed
    // Fires what is due at `now_ns`, at most `max`; a handler may insert and cancel any timer, its
    // own included.
    std::size_t expire(std::int64_t now_ns, std::size_t max = SIZE_MAX) noexcept;
    // A lower bound of the next deadline, exact within a slot's width and never late; no_deadline
    // (INT64_MAX) if empty.
    [[nodiscard]] std::int64_t next_deadline_ns() const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

  private:
    struct state;
    std::unique_ptr<state> state_;
    std::size_t size_ = 0;
};

}  // namespace ringloop
