// support: what the tests of ringloop/sync/ share: a runner on the simulated driver and tasks that
// leave a trace.
#pragma once

#include <string>

#include "unit/net/runner.hpp"

namespace test {

inline runner on_fake() {
    return runner(rl::testing::all_bodies().back());
}

// Lets every other coroutine go as far as it can.
inline rl::task<void> settle() {
    for (int i = 0; i < 20; ++i) co_await rl::yield();
}

// Awaits `work`, then adds `mark`; adds `mark` and "!" if a stop ended it.
template <class Await>
rl::task<void> trace(std::string& log, char mark, Await work) {
    try {
        co_await std::move(work);
        log += mark;
    } catch (const rl::operation_cancelled&) {
        log += mark;
        log += '!';
    }
}

}  // namespace test
