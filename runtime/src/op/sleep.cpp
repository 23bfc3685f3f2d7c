// Timers and yields as awaits.
#include "ringloop/sleep.hpp"

#include <limits>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"

namespace ringloop {
namespace detail {

bool sleep_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    if (scope != nullptr && scope->stop_requested()) {
        stopped_ = true;
        return false;
    }
    home_ = &running_scheduler();
    waiting_ = handle;
    home_->note_wait(scope);
    const std::int64_t now_ns = home_->now_ns();
    std::int64_t fires_ns = time_ns_;
    if (!absolute_) {
        const bool for_ever = time_ns_ > std::numeric_limits<std::int64_t>::max() - now_ns;
        fires_ns = for_ever ? std::numeric_limits<std::int64_t>::max() : now_ns + time_ns_;
    }
    if (scope != nullptr) scope->add(*this);
    home_->timers().insert(*this, fires_ns, now_ns);
    return true;
}

void sleep_await::fire(timer& fired) noexcept {
    auto& self = static_cast<sleep_await&>(fired);
    self.unlink();
    self.home_->schedule(self.waiting_);
}

void sleep_await::ask_to_stop(stop_waiter& waiter) noexcept {
    auto& self = static_cast<sleep_await&>(waiter);
    self.stopped_ = true;
    self.home_->timers().cancel(self);
    self.home_->schedule(self.waiting_);
}

void sleep_await::await_resume() const {
    if (stopped_) throw operation_cancelled();
}

}  // namespace detail

void yield::put_behind(std::coroutine_handle<> handle) const {
    scheduler& home = detail::running_scheduler();
    home.note_wait(scope);
    home.schedule(handle);
}

void yield::await_resume() const {
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
}

}  // namespace ringloop
