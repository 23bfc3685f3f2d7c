// job: work that runs off the loop's thread and comes back to it. No Python here.
//
// Life: owner fills it -> arena::submit(job) -> run(stop) on a worker -> the worker's last act is
// home.post(*this) -> on_finish(job) on the loop's thread. The job is its own queue node: finishing
// allocates nothing and cannot fail. Between submit and on_finish the job and its inputs must stay
// alive and unchanged.
//
// Rules
//  1. run() never touches Python and may throw: the exception is kept in `error`.
//  2. request_stop() may be called from the loop's thread at any time before on_finish; run() looks
//     at stop_requested() at least once a block of work (about a millisecond) and returns early.
//  3. on_finish runs exactly once, on the loop's thread, also for a job that was stopped before it
//     began.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "ringloop/inbox.hpp"

namespace ringloop::bridge {

// Where a finished job goes: a scheduler's post() or post_host(), or a native consumer's own inbox.
// A pair of plain words, so that a job made in one shared library can finish in another.
struct job_home {
    void* context = nullptr;
    void (*post)(void* context, posted& node) noexcept = nullptr;
};

class job : public posted {
  public:
    using finish_handler = void (*)(job&) noexcept;

    job() noexcept : posted(&job::deliver) {}
    virtual ~job() = default;
    job(const job&) = delete;
    job& operator=(const job&) = delete;

    virtual void run() = 0;  // on a worker

    void request_stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool stop_requested() const noexcept {
        return stop_.load(std::memory_order_relaxed);
    }

    // Called by the executor: run() unless stopped before, keeping what it throws. The executor
    // then posts the job home and must not touch it any more; execute() is both.
    void perform() noexcept {
        if (stop_requested()) return;
        try {
            run();
        } catch (...) {
            error = std::current_exception();
        }
    }
    void execute() noexcept {
        perform();
        home.post(home.context, *this);
    }

    job_home home;  // its context outlives the job
    finish_handler on_finish = nullptr;
    void* owner = nullptr;
    std::exception_ptr error;

  private:
    static void deliver(posted& node) noexcept {
        job& self = static_cast<job&>(node);
        self.on_finish(self);
    }
    std::atomic<bool> stop_{false};
};

// Runs jobs on threads of its own. submit() is called on the loop's thread; it never blocks and
// never fails.
class executor {
  public:
    virtual ~executor() = default;  // waits for running jobs; queued ones are stopped and delivered
    virtual void submit(job& work) noexcept = 0;
    [[nodiscard]] virtual unsigned concurrency() const noexcept = 0;
};

}  // namespace ringloop::bridge
