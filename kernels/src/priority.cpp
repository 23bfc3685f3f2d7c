// Below the loop: which priority, and why. Concerns the calling thread only.
#include "priority.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ringloop::kernels {

// nice 19 and not SCHED_IDLE: an idle-class worker gets 0.3 % of a busy core, so that one spinning
// process elsewhere on the machine can hold an awaited result back for seconds; nice 19 gets 1.5 %
// and leaves the loop's lag nearly as low.
void lower_this_thread() noexcept {
    thread_local bool lowered = false;
    if (lowered) return;
    lowered = true;
    const auto thread = static_cast<id_t>(syscall(SYS_gettid));
    (void)setpriority(PRIO_PROCESS, thread, 19);
}

}  // namespace ringloop::kernels
