// server_cpu: the CPU time that another process has taken.
#pragma once

#include <cstdint>

namespace load {

// On-CPU time of all threads that process `pid` has now, the kernel's io_uring workers too.
// 0 for pid 0; throws if the process is gone.
[[nodiscard]] std::int64_t server_cpu_ns(int pid);

}  // namespace load
