// kernel_memory: marks allocations that the simulated kernel makes for itself.
//
// A kernel does not take its memory from the program: tests that let allocations fail spare those
// that are made while a kernel_memory lives. What the simulated driver calls in the library is the
// program's again (program_memory). Thread: each has its own mark.
#pragma once

#include <utility>

namespace ringloop::testing {

class kernel_memory {
  public:
    kernel_memory() noexcept { ++depth_; }
    ~kernel_memory() { --depth_; }
    kernel_memory(const kernel_memory&) = delete;
    kernel_memory& operator=(const kernel_memory&) = delete;
    [[nodiscard]] static bool in_use() noexcept { return depth_ != 0; }

  private:
    friend class program_memory;
    static inline thread_local constinit int depth_ = 0;
};

class program_memory {
  public:
    program_memory() noexcept : depth_(std::exchange(kernel_memory::depth_, 0)) {}
    ~program_memory() { kernel_memory::depth_ = depth_; }
    program_memory(const program_memory&) = delete;
    program_memory& operator=(const program_memory&) = delete;

  private:
    int depth_;
};

}  // namespace ringloop::testing
