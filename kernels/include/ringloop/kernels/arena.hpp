// arena: runs jobs below the loop's priority; inside a job, spreads blocks over a oneTBB
// task_arena.
//
// A job is taken by one of the arena's own threads, which sleep on a condition variable. They are
// the entry instead of task_arena::enqueue because an idle TBB worker spins for about 200 us before
// it sleeps: more than most jobs cost. TBB's workers join for jobs of several blocks only, where
// that is nothing.
//
// Priority: the arena's threads and the TBB workers that enter it run at nice 19. An unprivileged
// thread cannot raise itself again, so a TBB worker that has been here stays low, also for other
// users of TBB in the process.
//
// Threads: submit() from any thread. Jobs run without any lock held.
#pragma once

#include <cstddef>
#include <memory>

#include "ringloop/bridge/core/job.hpp"

namespace ringloop::kernels {

class arena final : public bridge::executor {
  public:
    static constexpr unsigned workers_max = 64;  // OpenBLAS has work buffers for that many callers

    // 0: one worker for each CPU this process may run on. Throws std::system_error if no thread can
    // be started.
    explicit arena(unsigned workers = 0);
    ~arena() override;  // stop_all(), then joins
    arena(const arena&) = delete;
    arena& operator=(const arena&) = delete;

    // After stop_all() a job is delivered stopped, without having run.
    void submit(bridge::job& work) noexcept override;
    [[nodiscard]] unsigned concurrency() const noexcept override { return workers_; }

    // Asks every running job to stop, delivers queued ones stopped, takes no new work, and returns
    // when the last job has left: about one block later. Not from inside a job.
    void stop_all() noexcept;

    // Calls body(context, index) for each index below `count`, on the calling thread and on workers
    // that are free; what a body throws is thrown here and ends the rest. For use inside a job.
    using block_function = void (*)(void* context, std::size_t index);
    void for_each_block(std::size_t count, block_function body, void* context);

    // The process's arena, started at the first call and never destroyed. Throws std::runtime_error
    // in a forked child whose parent had started it: threads do not survive a fork.
    [[nodiscard]] static arena& shared();
    // stop_all() on the shared arena, if it was started and belongs to this process.
    static void stop_shared() noexcept;
    // Jobs that the shared arena has taken and not yet posted home; 0 if it was never started.
    [[nodiscard]] static unsigned unfinished_shared() noexcept;

  private:
    struct state;
    unsigned workers_;
    std::unique_ptr<state> state_;
};

}  // namespace ringloop::kernels
