// current_scheduler: the scheduler on this thread's stack. Written by scheduler::entry alone.
// initial-exec: a plain load also from a shared library.
#pragma once

namespace ringloop {

class scheduler;

namespace detail {

[[gnu::tls_model("initial-exec")]] extern thread_local constinit scheduler* current_scheduler;

}  // namespace detail
}  // namespace ringloop
