// on_worker: an await of a function that one of the driver's workers calls, for what the ring has
// no operation for.
//
//     const int size = co_await on_worker("read a link", [&](const std::atomic<bool>& stop)
//     noexcept {
//         return read_link(path, target);
//     });
//
// The function must not throw; it returns a value that is not negative, or a negated errno, which
// is thrown as the error of `what`. What it refers to lives until the await ends.
// Cancel: a call that has not begun does not begin; one that has is waited for, `stop` told, and
// its value returned if it has one all the same.
#pragma once

#include <atomic>
#include <utility>

#include "ringloop/detail/operation_await.hpp"

namespace ringloop::fs {

template <class Function>
class on_worker : public ringloop::detail::operation_await {
  public:
    on_worker(const char* what, Function function) : what_(what), function_(std::move(function)) {
        op_.prepare_call(&on_worker::run, this);
    }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* scope = ringloop::detail::scope_of(handle);
        if (scope != nullptr && !scope->stop_requested()) scope->add(flag_);
        return operation_await::await_suspend(handle);
    }
    int await_resume() {
        flag_.unlink();
        return finish(what_);
    }

  private:
    struct flag : ringloop::stop_waiter {
        flag() noexcept
            : ringloop::stop_waiter([](ringloop::stop_waiter& self) noexcept {
                  static_cast<flag&>(self).stop.store(true, std::memory_order_relaxed);
              }) {}
        std::atomic<bool> stop{false};
    };
    static std::int32_t run(void* context) noexcept {
        auto& self = *static_cast<on_worker*>(context);
        return self.function_(self.flag_.stop);
    }

    const char* what_;
    Function function_;
    flag flag_;
};

}  // namespace ringloop::fs
