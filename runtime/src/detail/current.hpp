// current_scheduler: the scheduler on this thread's stack. Written by scheduler::entry alone.
#pragma once

#include "ringloop/detail/hot_thread_local.hpp"

namespace ringloop {

class scheduler;

namespace detail {

RINGLOOP_HOT_TLS extern thread_local constinit scheduler* current_scheduler;

}  // namespace detail
}  // namespace ringloop
