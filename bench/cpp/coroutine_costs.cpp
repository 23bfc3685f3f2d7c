// coroutine_costs: nanoseconds for creating and awaiting a task, a yield, a timer.
//
// Best of several rounds; pin it (taskset) for steady figures.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "ringloop/ringloop.hpp"

namespace rl = ringloop;

namespace {

constexpr int rounds = 7;

double now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

[[gnu::noinline]] rl::task<int> value(int v) {
    co_return v;
}

rl::task<double> create_and_await() {
    constexpr int count = 2'000'000;
    long sum = 0;
    const double begin = now_ns();
    for (int i = 0; i < count; ++i) sum += co_await value(i & 1);
    const double each = (now_ns() - begin) / count;
    if (sum != count / 2) std::abort();
    co_return each;
}

rl::task<void> yield_times(int count) {
    for (int i = 0; i < count; ++i) co_await rl::yield();
}

rl::task<double> yields(int tasks) {
    constexpr int total = 1'000'000;
    const double begin = now_ns();
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        for (int i = 0; i < tasks; ++i) group.spawn(yield_times(total / tasks));
        co_return;
    });
    co_return (now_ns() - begin) / total;
}

double timers(std::size_t count) {
    rl::timer_wheel wheel;
    std::vector<std::unique_ptr<rl::timer>> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(std::make_unique<rl::timer>([](rl::timer&) noexcept {}));
    std::uint64_t random = 88172645463325252ULL;
    const double begin = now_ns();
    for (auto& t : all) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        wheel.insert(*t, static_cast<std::int64_t>(random % 600'000) * 1'000'000, 0);
    }
    const double each = (now_ns() - begin) / static_cast<double>(count);
    for (auto& t : all) wheel.cancel(*t);
    return each;
}

}  // namespace

int main() {
    double task_ns = 1e9;
    double yield_ns = 1e9;
    double yield_many_ns = 1e9;
    double timer_ns = 1e9;
    rl::scheduler home;
    for (int round = 0; round < rounds; ++round) {
        task_ns = std::min(task_ns, rl::sync_wait(home, create_and_await()));
        yield_ns = std::min(yield_ns, rl::sync_wait(home, yields(10)));
        yield_many_ns = std::min(yield_many_ns, rl::sync_wait(home, yields(1000)));
        timer_ns = std::min(timer_ns, timers(1'000'000));
    }
    std::printf("task: create and await      %6.1f ns\n", task_ns);
    std::printf("yield, 10 tasks             %6.1f ns\n", yield_ns);
    std::printf("yield, 1,000 tasks          %6.1f ns\n", yield_many_ns);
    std::printf("timer: insert at 1,000,000  %6.1f ns\n", timer_ns);
}
