// failing_new: operator new of the simulated suite, which fails when it is told to.
//
// One allocation of this thread, counted from begin(), fails with bad_alloc; all others go to the
// heap. The simulated kernel's own are neither counted nor failed (kernel_memory.hpp).
#pragma once

#include <cstdint>

namespace sim {

class memory_shortage {
  public:
    // `fails` is the number of the allocation that fails, from 1; 0: none, they are counted only.
    explicit memory_shortage(std::uint64_t fails) noexcept;
    ~memory_shortage();
    memory_shortage(const memory_shortage&) = delete;
    memory_shortage& operator=(const memory_shortage&) = delete;

    [[nodiscard]] static bool has_failed() noexcept;
    [[nodiscard]] static std::uint64_t asked() noexcept;  // since begin
    // Allocations of this thread that were not freed since begin, the kernel's included.
    [[nodiscard]] static std::int64_t balance() noexcept;
};

}  // namespace sim
