// The thread pool: one queue, one lock, threads started on demand.
#include "ringloop/thread_pool.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <memory>
#include <system_error>

#include "ringloop/detail/processors.hpp"
#include "ringloop/detail/signals_blocked.hpp"

namespace ringloop {

namespace {

constexpr std::chrono::microseconds look_time{20};

std::atomic<thread_pool*> shared{nullptr};

// Its threads are the parent's, and its lock may be held by one of them.
void forget_shared_after_fork() {
    shared.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

thread_pool::thread_pool(unsigned threads_max)
    : thread_pool(thread_pool_options{.threads_max = threads_max}) {}

thread_pool::thread_pool(const thread_pool_options& options)
    : options_(options), may_look_(detail::has_several_processors()) {
    options_.threads_max = std::max(options_.threads_max, 1U);
    threads_.reserve(options_.threads_max);
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
        if (idle_ <= queued_ && threads_.size() < options_.threads_max) {
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
    pthread_setname_np(pthread_self(), options_.name);
    // Linux keeps it for each thread. Refused, the thread stays as it is.
    if (options_.niceness != 0) static_cast<void>(nice(options_.niceness));
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

thread_pool& workers() {
    if (thread_pool* const found = shared.load(std::memory_order_acquire)) return *found;
    static const int at_fork = pthread_atfork(nullptr, nullptr, &forget_shared_after_fork);
    static_cast<void>(at_fork);
    auto made =
        std::make_unique<thread_pool>(thread_pool_options{.niceness = 19, .name = "rl-worker"});
    thread_pool* found = nullptr;
    if (shared.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel))
        found = made.release();
    return *found;
}

}  // namespace ringloop
