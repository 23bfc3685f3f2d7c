// thread_pool: a bounded number of threads for blocking calls and for compute without oneTBB.
//
// Work is taken in order of submission. Threads are started as work comes, at most `threads_max`.
// One that runs out of work looks for more a moment (20 us) before it sleeps: being woken costs
// more than a short job. One thread at a time does, and seldom where it looked in vain.
//
// workers() is the pool for compute that every process has, below the loops' priority.
// Thread: submit() and workers() from any.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ringloop {

struct thread_pool_options {
    unsigned threads_max = std::thread::hardware_concurrency();
    int niceness = 0;  // added to that of the thread that starts them, 0 to 19: 19 leaves a busy
                       // processor to others, a loop above all, that want it now and then
    const char* name = "rl-pool";  // of the threads, at most 15 bytes; outlives the pool
};

class thread_pool {
  public:
    // Intrusive: lives until run() is called, and may be freed in it.
    struct item {
        using function = void (*)(item&) noexcept;
        explicit item(function to_run) noexcept : run(to_run) {}
        function run;
        item* next = nullptr;
    };

    explicit thread_pool(unsigned threads_max = std::thread::hardware_concurrency());
    explicit thread_pool(const thread_pool_options& options);
    // Runs what is queued, then joins.
    ~thread_pool();
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    // Throws std::system_error if not even one thread can be started.
    void submit(item& work);
    [[nodiscard]] unsigned threads_max() const noexcept { return options_.threads_max; }

  private:
    // When to look again: after each look in vain, twice as many idle times pass without one.
    struct look_policy {
        static constexpr unsigned rest_max = 64;
        unsigned rest = 0;
        unsigned left = 0;
        [[nodiscard]] bool due() noexcept {
            if (left == 0) return true;
            --left;
            return false;
        }
        void looked(bool found) noexcept {
            rest = found ? 0 : std::min(2 * rest + 1, rest_max);
            left = rest;
        }
    };

    void work_loop();
    void look_for_work(std::unique_lock<std::mutex>& lock);

    thread_pool_options options_;
    const bool may_look_;
    std::mutex mutex_;
    std::condition_variable wake_;
    item* first_ = nullptr;
    item** last_ = &first_;
    std::size_t idle_ = 0;
    std::size_t queued_ = 0;
    std::atomic<bool> filled_{false};  // the queue is not empty: for the one that looks
    look_policy policy_;
    bool looking_ = false;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

// The process's own pool for compute: a thread for each processor, at niceness 19, so that loops
// are on time beside it. Never destroyed: nobody waits for its threads when the process ends. A
// forked child gets one of its own.
[[nodiscard]] thread_pool& workers();

}  // namespace ringloop
