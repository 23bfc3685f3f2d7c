// processors: whether looking at memory can pay. It cannot where the one that would write there
// waits for the very processor that looks. Thread: any.
#pragma once

#include <sched.h>

namespace ringloop::detail {

// Whether the calling thread may run on more than one processor: its affinity (taskset, a
// container's cpuset), not the machine.
inline bool has_several_processors() noexcept {
    cpu_set_t processors;
    CPU_ZERO(&processors);
    return ::sched_getaffinity(0, sizeof processors, &processors) == 0 &&
           CPU_COUNT(&processors) > 1;
}

}  // namespace ringloop::detail
