// Puts the calling thread below the loop's priority. Never fails: lowering needs no privilege, and
// where a sandbox forbids the call the thread keeps its priority.
#pragma once

namespace ringloop::kernels {

void lower_this_thread() noexcept;

}  // namespace ringloop::kernels
