// simulated: a scheduler over the simulated driver, for targets that run coroutines; what it must
// have in the end.
#pragma once

#include <chrono>

#include "ringloop/error.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/sync_wait.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/testing/fake_driver.hpp"
#include "ringloop/when.hpp"
#include "target.hpp"

namespace fuzz {

namespace rl = ringloop;
using rl::task;
using namespace std::chrono_literals;

// Runs `body` to its end and looks at what is left. What it throws is the target's to expect.
inline void simulate(task<void> body, const rl::testing::chaos& random = {}) {
    rl::testing::fake_config config;
    config.driver.buffer_count = 4;
    config.driver.buffer_size = 64;
    config.driver.submission_entries = 8;
    config.kernel.socket_buffer = 256;
    config.random = random;
    auto made = rl::testing::make_fake_driver(config);
    rl::testing::fake_driver& io = *made;
    rl::scheduler home(std::move(made));
    std::exception_ptr failure;
    try {
        rl::sync_wait(home, std::move(body));
    } catch (...) {
        failure = std::current_exception();
    }
    io.stop_faults();
    home.run();
    must(io.in_flight() == 0, "no operation is left in flight");
    must(io.leased_buffers() == 0, "every buffer is given back");
    must(io.kernel().open_descriptors() == 0, "every descriptor is closed");
    must(home.timers().size() == 0, "no timer is left");
    must(io.violations().empty(), "no buffer is used after its end");
    if (failure != nullptr) std::rethrow_exception(failure);
}

// One await of an actor at a time, which others may stop.
class actor {
  public:
    // False: it was stopped.
    [[nodiscard]] task<bool> ends(task<void> work) {
        rl::stop_scope own;
        scope_ = &own;
        bool ended = true;
        try {
            co_await std::move(work).in(own);
        } catch (const rl::operation_cancelled&) {
            must(own.stop_requested(), "only who is stopped is cancelled");
            ended = false;
        }
        scope_ = nullptr;
        co_return ended;
    }
    void stop() noexcept {
        if (scope_ != nullptr) scope_->request_stop();
    }

  private:
    rl::stop_scope* scope_ = nullptr;
};

}  // namespace fuzz
