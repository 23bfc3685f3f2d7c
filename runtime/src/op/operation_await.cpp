// Awaiting one-shot operations. See detail/operation_await.hpp.
#include "ringloop/detail/operation_await.hpp"

#include <cerrno>
#include <stdexcept>

namespace ringloop::detail {

scheduler& running_scheduler() {
    scheduler* running = scheduler::current();
    if (running == nullptr)
        throw std::logic_error(
            "ringloop: this coroutine is not run by a scheduler: start it with ringloop::run, "
            "sync_wait or a task group");
    return *running;
}

bool operation_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    scope_ = scope;
    if (scope != nullptr && scope->stop_requested()) {
        result_ = -ECANCELED;
        return false;
    }
    home_ = &running_scheduler();
    if (scope != nullptr) scope->add(*this);
    waiting_ = handle;
    home_->note_wait(scope);
    home_->io().submit(op_);
    return true;
}

void operation_await::arrive(operation& op, const completion& last) noexcept {
    auto& self = *static_cast<operation_await*>(static_cast<owned_operation&>(op).owner);
    self.unlink();
    self.result_ = last.result;
    self.home_->schedule(self.waiting_);
}

void operation_await::ask_to_stop(stop_waiter& waiter) noexcept {
    auto& self = static_cast<operation_await&>(waiter);
    self.home_->io().cancel(self.op_);
}

void operation_await::fail(const char* what) const {
    // A file operation on a kernel worker answers a cancel with EINTR.
    const bool ended_early = result_ == -ECANCELED || result_ == -EINTR;
    if (ended_early && scope_ != nullptr && scope_->stop_requested()) throw operation_cancelled();
    throw_error(-result_, what);
}

}  // namespace ringloop::detail
