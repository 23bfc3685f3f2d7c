// The arena's threads and queue: one mutex, held for a few instructions and never while a job runs
// or is posted; TBB is entered only by for_each_block.
#include "ringloop/kernels/arena.hpp"

#include <pthread.h>
#include <sched.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "priority.hpp"

namespace ringloop::kernels {
namespace {

unsigned usable_cpus() noexcept {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return std::thread::hardware_concurrency();
    return static_cast<unsigned>(CPU_COUNT(&mask));
}

class priority_observer final : public tbb::task_scheduler_observer {
  public:
    explicit priority_observer(tbb::task_arena& where) : task_scheduler_observer(where) {
        observe(true);
    }
    ~priority_observer() override { observe(false); }
    void on_scheduler_entry(bool is_worker) override {
        if (is_worker) lower_this_thread();
    }
};

}  // namespace

// Rules (everything below `mutex` belongs to it)
//  1. A queued job's `next` is ours; it is home's again from the moment the job is posted.
//  2. A running job stands in `running` only while it cannot have been posted: stop_all() may touch
//  every job that stands there.
struct arena::state {
    explicit state(unsigned workers)
        : blocks(static_cast<int>(workers), 1), observer(blocks), running(workers, nullptr) {}

    void work(std::size_t slot) noexcept;
    void finish(bridge::job& job) noexcept;
    bridge::job* take(std::unique_lock<std::mutex>& lock) noexcept;

    tbb::task_arena blocks;
    priority_observer observer;
    std::vector<std::thread> threads;

    std::mutex mutex;
    std::condition_variable work_available;
    std::condition_variable all_left;
    posted* queue_head = nullptr;
    posted* queue_tail = nullptr;
    unsigned idle = 0;
    unsigned unfinished = 0;  // queued, running or being posted
    bool stopped = false;     // no new work
    bool exiting = false;     // threads end
    std::vector<bridge::job*> running;
};

bridge::job* arena::state::take(std::unique_lock<std::mutex>& lock) noexcept {
    while (queue_head == nullptr) {
        if (exiting) return nullptr;
        ++idle;
        work_available.wait(lock);
        --idle;
    }
    posted* node = queue_head;
    queue_head = node->next;
    if (queue_head == nullptr) queue_tail = nullptr;
    node->next = nullptr;
    return static_cast<bridge::job*>(node);
}

void arena::state::finish(bridge::job& job) noexcept {
    const bridge::job_home home = job.home;
    home.post(home.context, job);  // the job is gone from here on
    const std::lock_guard lock(mutex);
    if (--unfinished == 0) all_left.notify_all();
}

void arena::state::work(std::size_t slot) noexcept {
    lower_this_thread();
    std::unique_lock lock(mutex);
    while (bridge::job* job = take(lock)) {
        running[slot] = job;
        if (stopped) job->request_stop();
        lock.unlock();
        job->perform();
        lock.lock();
        running[slot] = nullptr;
        lock.unlock();
        finish(*job);
        lock.lock();
    }
}

arena::arena(unsigned workers)
    : workers_(std::clamp(workers == 0 ? usable_cpus() : workers, 1U, workers_max)),
      state_(std::make_unique<state>(workers_)) {
    try {
        state_->threads.reserve(workers_);
        for (std::size_t slot = 0; slot < workers_; ++slot) {
            state_->threads.emplace_back([body = state_.get(), slot] { body->work(slot); });
            pthread_setname_np(state_->threads.back().native_handle(), "rl-kernel");
        }
    } catch (const std::exception&) {  // no thread, or no memory for one
        if (state_->threads.empty()) throw;
        workers_ = static_cast<unsigned>(state_->threads.size());  // fewer, but some
    }
}

arena::~arena() {
    stop_all();
    {
        const std::lock_guard lock(state_->mutex);
        state_->exiting = true;
    }
    state_->work_available.notify_all();
    for (std::thread& thread : state_->threads) thread.join();
}

void arena::submit(bridge::job& work) noexcept {
    {
        const std::lock_guard lock(state_->mutex);
        ++state_->unfinished;
        if (!state_->stopped) {
            work.next = nullptr;
            (state_->queue_tail == nullptr ? state_->queue_head : state_->queue_tail->next) = &work;
            state_->queue_tail = &work;
            if (state_->idle != 0) state_->work_available.notify_one();
            return;
        }
    }
    work.request_stop();
    state_->finish(work);
}

void arena::stop_all() noexcept {
    std::unique_lock lock(state_->mutex);
    state_->stopped = true;
    for (bridge::job* job : state_->running)
        if (job != nullptr) job->request_stop();
    while (state_->queue_head != nullptr) {
        bridge::job* job = state_->take(lock);
        lock.unlock();
        job->request_stop();
        state_->finish(*job);
        lock.lock();
    }
    state_->all_left.wait(lock, [this] { return state_->unfinished == 0; });
}

void arena::for_each_block(std::size_t count, block_function body, void* context) {
    state_->blocks.execute([&] {
        // Isolated: while it waits, this thread helps with its own blocks only, never with a job
        // that would hold it longer.
        tbb::this_task_arena::isolate([&] {
            tbb::parallel_for(
                std::size_t{0}, count, [&](std::size_t index) { body(context, index); },
                tbb::simple_partitioner());
        });
    });
}

namespace {

// The shared arena is leaked on purpose: its threads may be inside a job when static destructors
// run.
std::atomic<arena*> shared_arena{nullptr};
std::atomic<bool> lost_in_fork{false};
std::mutex shared_mutex;

int watch_forks() noexcept {
    return pthread_atfork([] { shared_mutex.lock(); }, [] { shared_mutex.unlock(); },
                          [] {
                              if (shared_arena.load(std::memory_order_relaxed) != nullptr)
                                  lost_in_fork.store(true, std::memory_order_relaxed);
                              shared_mutex.unlock();
                          });
}

}  // namespace

arena& arena::shared() {
    if (lost_in_fork.load(std::memory_order_relaxed))
        throw std::runtime_error(
            "ringloop's kernels were in use before this process was forked, and their threads do "
            "not survive a fork: start child processes with the 'spawn' or 'forkserver' method");
    if (arena* started = shared_arena.load(std::memory_order_acquire)) return *started;
    const std::lock_guard lock(shared_mutex);
    if (arena* started = shared_arena.load(std::memory_order_relaxed)) return *started;
    // Once, however often the lines below fail: twice would lock the mutex twice in a fork.
    static const int watched = watch_forks();
    if (watched != 0)
        throw std::system_error(watched, std::generic_category(), "ringloop: pthread_atfork");
    auto* fresh = new arena();
    shared_arena.store(fresh, std::memory_order_release);
    return *fresh;
}

void arena::stop_shared() noexcept {
    if (lost_in_fork.load(std::memory_order_relaxed)) return;
    if (arena* started = shared_arena.load(std::memory_order_acquire)) started->stop_all();
}

unsigned arena::unfinished_shared() noexcept {
    arena* started = shared_arena.load(std::memory_order_acquire);
    if (started == nullptr || lost_in_fork.load(std::memory_order_relaxed)) return 0;
    const std::lock_guard lock(started->state_->mutex);
    return started->state_->unfinished;
}

}  // namespace ringloop::kernels
