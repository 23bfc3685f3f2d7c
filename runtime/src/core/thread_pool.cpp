// The thread pool: one queue, one lock, threads started on demand.
#include "ringloop/thread_pool.hpp"

#include <algorithm>
#include <cassert>
#include <system_error>

#include "ringloop/detail/signals_blocked.hpp"

namespace ringloop {

thread_pool::thread_pool(unsigned threads_max) : threads_max_(std::max(threads_max, 1U)) {
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
    }
    wake_.notify_one();
}

void thread_pool::work_loop() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        wake_.wait(lock, [this] { return first_ != nullptr || ending_; });
        --idle_;
        item* work = first_;
        if (work == nullptr) return;
        first_ = work->next;
        if (first_ == nullptr) last_ = &first_;
        --queued_;
        lock.unlock();
        work->run(*work);
        lock.lock();
    }
}

}  // namespace ringloop
