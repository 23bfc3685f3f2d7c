// thread_pool: a bounded number of threads for blocking calls and for compute without oneTBB.
//
// Work is taken in order of submission. Threads are started as work comes, at most `threads_max`.
// Thread: submit() from any.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ringloop {

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
    // Runs what is queued, then joins.
    ~thread_pool();
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    // Throws std::system_error if not even one thread can be started.
    void submit(item& work);
    [[nodiscard]] unsigned threads_max() const noexcept { return threads_max_; }

  private:
    void work_loop();

    unsigned threads_max_;
    std::mutex mutex_;
    std::condition_variable wake_;
    item* first_ = nullptr;
    item** last_ = &first_;
    std::size_t idle_ = 0;
    std::size_t queued_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace ringloop
