// ready_queue: the handles that run next, oldest first. A flat power-of-two ring; it owns one
// reference to each.
//
// GIL held, except size(): the loop's thread reads it while it goes to sleep without the GIL, hence
// the atomic tail.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

#include "handle.hpp"

namespace ringloop::python {

class ready_queue {
  public:
    ready_queue() : slots_(1024) {}

    [[nodiscard]] std::size_t size() const noexcept {
        return tail_.load(std::memory_order_relaxed) - head_;
    }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }

    // Takes over the reference. False: no memory, the reference stays the caller's.
    [[nodiscard]] bool push(handle_object* handle) noexcept {
        if (size() == slots_.size() && !grow()) return false;
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        slots_[tail & (slots_.size() - 1)] = handle;
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }
    // Gives the reference to the caller; not empty.
    [[nodiscard]] handle_object* pop() noexcept { return slots_[head_++ & (slots_.size() - 1)]; }
    [[nodiscard]] handle_object* at(std::size_t index) const noexcept {
        return slots_[(head_ + index) & (slots_.size() - 1)];
    }

  private:
    bool grow() noexcept {
        try {
            std::vector<handle_object*> larger(slots_.size() * 2);
            const std::size_t count = size();
            for (std::size_t i = 0; i < count; ++i) larger[i] = at(i);
            slots_.swap(larger);
            head_ = 0;
            tail_.store(count, std::memory_order_release);
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    std::vector<handle_object*> slots_;
    std::size_t head_ = 0;
    std::atomic<std::size_t> tail_{0};
};

}  // namespace ringloop::python
