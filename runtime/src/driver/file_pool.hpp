// file_pool: work that would block, on a bounded number of threads made when needed: all file
// operations of the epoll body, and the calls of both.
//
// Thread: post(), withdraw(), collect() and the destructor belong to the driver's thread; the
// workers see jobs only. A job copies the operation's scalars and paths; the memory that read and
// write point to stays the owner's, so those cannot be given up once they run. open and statx can:
// a worker stuck in them (a FIFO without a peer, a dead network file system) is left behind, its
// result is thrown away, and its place is taken by a new thread. What changes names is not given up
// once it runs: its owner must be able to say that it will not happen any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ringloop/operation.hpp"

namespace ringloop {

class file_pool {
  public:
    // `wake_fd`: an eventfd, written once when finished work turns from none to some.
    file_pool(unsigned threads_max, int wake_fd) noexcept;
    // Joins the workers, except those that are stuck in an abandoned job.
    ~file_pool();
    file_pool(const file_pool&) = delete;
    file_pool& operator=(const file_pool&) = delete;

    // Returns 0, or a negated errno: no thread could be made and none is there.
    int post(operation& op) noexcept;
    // Gives the job up; true: nobody will write to the operation's memory any more.
    bool withdraw(operation& op) noexcept;
    struct finished {
        operation* op;
        std::int32_t result;
    };
    // The next finished job; false if there is none.
    bool collect(finished& next) noexcept;
    [[nodiscard]] bool has_finished() const noexcept;
    // In a forked child: the workers are not here; nothing may be touched again.
    void abandon() noexcept;

  private:
    struct shared;
    struct job;
    int start_worker_if_needed() noexcept;
    void fail_waiting(int error) noexcept;
    static void work(const std::shared_ptr<shared>& state, std::uint64_t worker) noexcept;
    std::shared_ptr<shared> state_;
};

}  // namespace ringloop
