// spawn, remote_task: starts a task on a running scheduler from a thread that has none.
//
//     remote_task<int> answer = spawn(home, compute());
//     use(answer.get());
//
// A remote_task owns what it started, as std::jthread does: its destructor asks the task to stop
// and blocks until it has ended, so that nothing outlives its owner. Not from a coroutine of a
// scheduler (it would block the thread): there, on() and task groups.
// Thread: spawn() from any; get(), wait() and the destructor from one at a time, never the
// scheduler's own. The scheduler runs until the task has ended.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "ringloop/on.hpp"

namespace ringloop {

template <class T>
class [[nodiscard]] remote_task {
  public:
    remote_task(scheduler& there, task<T> work)
        : shared_(std::make_unique<shared>(there, std::move(work))) {}
    remote_task(remote_task&&) noexcept = default;
    remote_task& operator=(remote_task&&) = delete;
    ~remote_task() {
        if (shared_ == nullptr) return;
        request_stop();
        wait();
    }

    void request_stop() noexcept { shared_->source.request_stop(); }
    [[nodiscard]] bool done() const noexcept { return shared_->is_done(); }
    // Blocks until the task has ended.
    void wait() const noexcept { shared_->wait(); }
    // Blocks likewise; the value, or what the task threw (operation_cancelled after a stop). Once.
    T get() {
        wait();
        return shared_->outcome.take();
    }

  private:
    struct shared : detail::crossing::listener {
        shared(scheduler& there, task<T> work)
            : listener([](listener& self) noexcept { static_cast<shared&>(self).finish(); }),
              coroutine(
                  detail::cross(there, source.get_token(), nullptr, std::move(work), outcome)) {
            coroutine.begin(there, *this);
        }
        // Two steps: after the second this object may be gone, and notifying touches it.
        void finish() noexcept {
            state.store(ended, std::memory_order_release);
            state.notify_all();
            state.store(left, std::memory_order_release);
        }
        [[nodiscard]] bool is_done() const noexcept {
            return state.load(std::memory_order_acquire) != running;
        }
        void wait() const noexcept {
            state.wait(running, std::memory_order_acquire);
            while (state.load(std::memory_order_acquire) != left) std::this_thread::yield();
        }
        static constexpr int running = 0, ended = 1, left = 2;
        std::stop_source source;
        result<T> outcome;
        std::atomic<int> state{running};
        detail::crossing coroutine;
    };
    std::unique_ptr<shared> shared_;
};

template <class T>
remote_task<T> spawn(scheduler& there, task<T> work) {
    return remote_task<T>(there, std::move(work));
}

}  // namespace ringloop
