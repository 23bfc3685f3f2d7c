// condition: waits, with a mutex let go meanwhile, until somebody says that something has changed.
//
//     auto lock = co_await m.lock();
//     co_await changed.wait(lock, [&] { return !queue.empty(); });
//     // and elsewhere, with the mutex held or not:
//     changed.notify_one();
//
// wait() returns with the mutex held. Nobody is woken without a notify.
// Thread: one scheduler's. Lifetime: it outlives its waiters.
// Cancel: operation_cancelled; the guard is then empty: the mutex is not held, for taking it again
// would have to wait. A notify that it had got goes on to the next waiter.
#pragma once

#include <stdexcept>

#include "ringloop/sync/mutex.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

class condition {
    class notified_await : private detail::parked {
      public:
        explicit notified_await(condition& awaited) noexcept : condition_(awaited) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle)) return false;
            park(condition_.waiting_, handle);
            return true;
        }
        void await_resume() const { throw_if_stopped(); }

      private:
        condition& condition_;
    };

  public:
    // `lock` must hold its mutex (std::logic_error); it outlives the wait.
    template <class Predicate>
    [[nodiscard]] task<void> wait(mutex::guard& lock, Predicate fulfilled) {
        while (!fulfilled()) co_await wait(lock);
    }
    [[nodiscard]] task<void> wait(mutex::guard& lock) {
        if (!lock)
            throw std::logic_error("ringloop::condition: wait() with a guard that holds nothing");
        shared_mutex& held = *lock.mutex_;
        const auto how = lock.how_;
        notified_await notified(*this);
        lock.unlock();
        co_await notified;
        try {
            lock = co_await shared_mutex::lock_await(held, how);
        } catch (const operation_cancelled&) {
            notify_one();
            throw;
        }
    }
    void notify_one() noexcept {
        if (!waiting_.empty()) waiting_.first()->wake();
    }
    void notify_all() noexcept {
        while (!waiting_.empty()) waiting_.first()->wake();
    }

  private:
    detail::wait_list waiting_;
};

}  // namespace ringloop
