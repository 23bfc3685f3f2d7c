// loop_link: a loop as other libraries' threads see it (ringloop_loop of capi.h). It outlives the
// loop; after end() it refuses.
//
// Any thread, no GIL needed, except end() and forget(): the loop's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace ringloop::bridge {

class loop_host;

class loop_link {
  public:
    explicit loop_link(loop_host* host) noexcept : host_(host) {}

    // 0, or -1: the loop has ended, or no memory.
    int post(void (*run)(void* context), void* context) noexcept;
    [[nodiscard]] std::int64_t now_ns() noexcept;  // -1: the loop has ended
    void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept {
        if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }
    // No post is under way afterwards, and none is taken.
    void end() noexcept {
        const std::lock_guard lock(mutex_);
        host_.store(nullptr, std::memory_order_release);
    }
    // In a forked child, where another thread's lock would stay locked.
    void forget() noexcept { host_.store(nullptr, std::memory_order_release); }

  private:
    ~loop_link() = default;
    std::mutex mutex_;
    std::atomic<loop_host*> host_;  // changed under the mutex
    std::atomic<int> owners_{1};
};

}  // namespace ringloop::bridge
