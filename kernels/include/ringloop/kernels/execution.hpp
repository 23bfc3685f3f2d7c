// execution: how a compute function runs, and what all of them have cost so far.
//
// Every compute function is a plain blocking function over byte buffers: it may be called from any
// thread, touches nothing but its arguments, and throws std::invalid_argument for input it cannot
// take. By default it works on the calling thread alone and to its end. Given a job it looks at the
// job's stop flag before each block (about a millisecond) and returns false if it left early; given
// an arena it spreads its blocks over the arena's workers.
#pragma once

#include <cstdint>

#include "ringloop/bridge/core/job.hpp"

namespace ringloop::kernels {

class arena;

struct execution {
    const bridge::job* work = nullptr;
    arena* workers = nullptr;

    [[nodiscard]] bool stop_requested() const noexcept {
        return work != nullptr && work->stop_requested();
    }
};

// Thread CPU time spent inside the compute functions by all threads of the process since it began.
[[nodiscard]] std::int64_t compute_ns_total() noexcept;

// Adds the calling thread's CPU time between construction and destruction to that total.
class compute_scope {
  public:
    compute_scope() noexcept;
    ~compute_scope();
    compute_scope(const compute_scope&) = delete;
    compute_scope& operator=(const compute_scope&) = delete;

  private:
    std::int64_t begin_ns_;
};

}  // namespace ringloop::kernels
