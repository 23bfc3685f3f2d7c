// event: a flag that coroutines wait for.
//
//     event ready;
//     co_await ready.wait();      at once if it is set
//     ready.set();                wakes all who wait; stays set until reset()
//
// Thread: one scheduler's; to set it from another thread, post() a function that does. Lifetime: it
// outlives its waiters.
// Cancel: wait() throws operation_cancelled; nothing to lose.
#pragma once

#include "ringloop/detail/wait_list.hpp"

namespace ringloop {

class event {
  public:
    class wait_await : private detail::parked {
      public:
        explicit wait_await(event& awaited) noexcept : event_(awaited) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle) || event_.set_) return false;
            park(event_.waiting_, handle);
            return true;
        }
        void await_resume() const { throw_if_stopped(); }

      private:
        event& event_;
    };

    explicit event(bool set = false) noexcept : set_(set) {}
    [[nodiscard]] bool is_set() const noexcept { return set_; }
    void set() noexcept {
        set_ = true;
        while (!waiting_.empty()) waiting_.first()->wake();
    }
    // For those who begin to wait from now on: who was woken goes on.
    void reset() noexcept { set_ = false; }
    [[nodiscard]] wait_await wait() noexcept { return wait_await(*this); }

  private:
    detail::wait_list waiting_;
    bool set_;
};

}  // namespace ringloop
