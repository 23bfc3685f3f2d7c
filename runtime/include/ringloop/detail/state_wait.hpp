// state_wait: a coroutine's wait for an object (stream, listener) to have something for it.
//
// The object keeps one pointer to its waiter, the slot. wake() resumes the waiter; a stop request
// takes it out of the slot and resumes it. Whoever is woken looks at the object's state, and at
// stopped() if there is nothing. Thread: the scheduler's.
#pragma once

#include <coroutine>

#include "ringloop/scheduler.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/task.hpp"

namespace ringloop::detail {

class state_wait : private stop_waiter {
  public:
    state_wait() noexcept : stop_waiter(&state_wait::ask_to_stop) {}
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }
    // Called by the object, on the slot's waiter; empties the slot.
    void wake() noexcept {
        unlink();
        *slot_ = nullptr;
        home_->schedule(waiting_);
    }
    // For an await that begins after a stop request: it must not begin.
    [[nodiscard]] bool refuses(const stop_scope* scope) noexcept {
        stopped_ = scope != nullptr && scope->stop_requested();
        return stopped_;
    }
    void wait(scheduler& home, state_wait*& slot_of_object, std::coroutine_handle<> handle,
              stop_scope* scope) noexcept {
        home_ = &home;
        slot_ = &slot_of_object;
        waiting_ = handle;
        slot_of_object = this;
        home.note_wait(scope);
        if (scope != nullptr) scope->add(*this);
    }

  private:
    static void ask_to_stop(stop_waiter& waiter) noexcept {
        auto& self = static_cast<state_wait&>(waiter);
        self.stopped_ = true;
        self.wake();
    }
    scheduler* home_ = nullptr;
    state_wait** slot_ = nullptr;
    std::coroutine_handle<> waiting_;
    bool stopped_ = false;
};

}  // namespace ringloop::detail
