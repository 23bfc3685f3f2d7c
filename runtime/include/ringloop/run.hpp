// run: the main() of a native service.
//
//     int main() { return ringloop::run(serve({"127.0.0.1", 8080})); }
//
// Runs the task on a scheduler of its own until it has ended. SIGINT and SIGTERM ask it to stop
// (stop.hpp); a second one has its usual effect, so that a program that does not stop can be ended.
// Returns 0, also after such a stop; what the task throws otherwise is thrown here. The previous
// signal handlers are put back. Thread: any, but one run() at a time per process.
#pragma once

#include "ringloop/driver.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

int run(task<void> work, const driver_config& config = {});

}  // namespace ringloop
