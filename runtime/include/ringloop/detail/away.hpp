// away: base of awaiters whose answer is made on another thread.
//
// leave() suspends the coroutine and keeps its scheduler running; come_back(), from any thread,
// resumes it there. Each once.
#pragma once

#include <coroutine>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::detail {

class away : private posted {
  public:
    away(const away&) = delete;
    away& operator=(const away&) = delete;

  protected:
    away() noexcept : posted(&away::on_return) {}
    ~away() = default;

    // `begin()` hands the work over; what it throws is thrown, and nothing is held then.
    template <class Promise, class Begin>
    void leave(std::coroutine_handle<Promise> handle, Begin begin) {
        home_ = &running_scheduler();
        waiting_ = handle;
        home_->note_wait(scope_of(handle));
        begin();
        home_->hold();  // not too late: who comes back is seen by this thread's next turn
    }
    // The caller's last touch: the coroutine may end before this returns.
    void come_back() noexcept { home_->post(*this); }

  private:
    static void on_return(posted& node) noexcept {
        auto& self = static_cast<away&>(node);
        self.home_->release();
        self.home_->schedule(self.waiting_);
    }
    scheduler* home_ = nullptr;
    std::coroutine_handle<> waiting_;
};

}  // namespace ringloop::detail
