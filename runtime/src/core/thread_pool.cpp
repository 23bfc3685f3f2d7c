// The thread pool: one queue, one lock, threads started on demand.
#include "ringloop/thread_pool.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <system_error>

#include "ringloop/detail/processors.hpp"
#include "ringloop/detail/signals_blocked.hpp"

namespace ringloop {

namespace {
constexpr std::chrono::microseconds look_time{20};
}

thread_pool::thread_pool(unsigned threads_max)
    : threads_max_(std::max(threads_max, 1U)), may_look_(detail::has_several_processors()) {
    threads_.reserve(threads_max_);
}

thread_pool::~thread_pool() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
    assert(first_ == nullptr);
}

void thread_pool::submit(item& work) {
    bool wake = true;
    {
        const std::lock_guard lock(mutex_);
        if (idle_ <= queued_ && threads_.size() < threads_max_) {
            try {
                const detail::signals_blocked quiet;
                threads_.emplace_back([this] { work_loop(); });
            } catch (const std::system_error&) {
                if (threads_.empty()) throw;  // others will come to it
            }
        }
        work.next = nullptr;
        *last_ = &work;
        last_ = &work.next;
        ++queued_;
        filled_.store(true, std::memory_order_relaxed);
        wake = !looking_ || queued_ > 1;  // the first is for the one that looks
    }
    if (wake) wake_.notify_one();
}

// Called, and returns, with the lock. What it sees is a hint: the lock decides who takes the work.
void thread_pool::look_for_work(std::unique_lock<std::mutex>& lock) {
    looking_ = true;
    lock.unlock();
    // tidy-allow: kernel-door because a pool has no driver to ask for the time
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto end = now() + look_time;
    while (!filled_.load(std::memory_order_relaxed) && now() < end) {
    }
    lock.lock();
    looking_ = false;
    policy_.looked(first_ != nullptr);
}

void thread_pool::work_loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        if (may_look_ && first_ == nullptr && !ending_ && !looking_ && policy_.due())
            look_for_work(lock);
        wake_.wait(lock, [this] { return first_ != nullptr || ending_; });
        --idle_;
        item* work = first_;
        if (work == nullptr) return;
        first_ = work->next;
        if (first_ == nullptr) {
            last_ = &first_;
            filled_.store(false, std::memory_order_relaxed);
        }
        --queued_;
        lock.unlock();
        work->run(*work);
        lock.lock();
    }
}

}  // namespace ringloop
