// semaphore: a number of permits; whoever finds too few waits in line.
//
//     semaphore connections(20);
//     auto permit = co_await connections.acquire();      given back when `permit` ends
//
// Fair: nobody overtakes the first in line, also not one who asks for less.
// Thread: one scheduler's. Lifetime: it outlives its waiters and its permits.
// Cancel: acquire() throws operation_cancelled and takes nothing; a permit that was faster is
// returned.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "ringloop/detail/wait_list.hpp"

namespace ringloop {

class semaphore {
  public:
    // Permits held; their end gives them back. Move-only.
    class [[nodiscard]] permit {
      public:
        permit() noexcept = default;
        permit(permit&& other) noexcept
            : from_(std::exchange(other.from_, nullptr)), count_(other.count_) {}
        permit& operator=(permit&& other) noexcept {
            std::swap(from_, other.from_);
            std::swap(count_, other.count_);
            return *this;
        }
        ~permit() { give_back(); }
        // Now, instead of at its end.
        void give_back() noexcept {
            if (semaphore* from = std::exchange(from_, nullptr)) from->release(count_);
        }
        // Keeps them for good: release() them by hand, or never.
        void forget() noexcept { from_ = nullptr; }
        [[nodiscard]] explicit operator bool() const noexcept { return from_ != nullptr; }

      private:
        friend class semaphore;
        permit(semaphore& from, std::size_t count) noexcept : from_(&from), count_(count) {}
        semaphore* from_ = nullptr;
        std::size_t count_ = 0;
    };

    class acquire_await : private detail::parked {
      public:
        acquire_await(semaphore& from, std::size_t count) noexcept
            : parked(&acquire_await::let_pass), from_(from), count_(count) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle) || from_.take(count_)) return false;
            park(from_.waiting_, handle);
            return true;
        }
        [[nodiscard]] permit await_resume() {
            throw_if_stopped();
            return {from_, count_};
        }

      private:
        friend class semaphore;
        static void let_pass(parked& self) noexcept {
            static_cast<acquire_await&>(self).from_.serve();
        }
        semaphore& from_;
        const std::size_t count_;
    };

    explicit semaphore(std::size_t permits) noexcept : free_(permits) {}
    // More than there are in all waits until release() has added some.
    [[nodiscard]] acquire_await acquire(std::size_t count = 1) noexcept { return {*this, count}; }
    // Without waiting, and never past those who wait; nothing if there are too few.
    [[nodiscard]] std::optional<permit> try_acquire(std::size_t count = 1) noexcept {
        if (!take(count)) return std::nullopt;
        return permit(*this, count);
    }
    // Adds permits: given back by hand, or new ones.
    void release(std::size_t count = 1) noexcept {
        free_ += count;
        serve();
    }
    [[nodiscard]] std::size_t available() const noexcept { return free_; }

  private:
    [[nodiscard]] bool take(std::size_t count) noexcept {
        if (!waiting_.empty() || count > free_) return false;
        free_ -= count;
        return true;
    }
    void serve() noexcept {
        while (!waiting_.empty()) {
            auto* first = static_cast<acquire_await*>(waiting_.first());
            if (first->count_ > free_) return;
            free_ -= first->count_;
            first->wake();
        }
    }
    detail::wait_list waiting_;
    std::size_t free_;
};

}  // namespace ringloop
