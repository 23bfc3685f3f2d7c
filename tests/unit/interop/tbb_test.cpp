// offload() to an arena of oneTBB's.
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include <ringloop/interop/tbb.hpp>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

TEST_CASE("an arena's threads run a function, whose algorithms stay in the arena", "[tbb]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    tbb::task_arena arena(2);
    runner r(body);
    long sum = 0;
    bool elsewhere = false, inside = false;
    const auto add_up = [&] {
        inside = tbb::this_task_arena::max_concurrency() == 2;
        return tbb::parallel_reduce(
            tbb::blocked_range<long>(0, 100'000), 0L,
            [](const tbb::blocked_range<long>& part, long so_far) {
                for (long i = part.begin(); i != part.end(); ++i) so_far += i;
                return so_far;
            },
            std::plus<>());
    };
    const auto scenario = [&]() -> rl::task<void> {
        const std::thread::id mine = std::this_thread::get_id();
        sum = co_await rl::offload(arena, add_up);
        CHECK(std::this_thread::get_id() == mine);
        elsewhere =
            co_await rl::offload(arena, [mine] { return std::this_thread::get_id() != mine; });
    };
    r.run(scenario());
    CHECK(sum == 99'999L * 100'000L / 2);
    CHECK(inside);
    CHECK(elsewhere);
}

TEST_CASE("what an arena's function throws, and a stop, come back to its await", "[tbb]") {
    runner r(rl::testing::real_bodies().back());
    tbb::task_arena arena(1);
    std::atomic<bool> begun{false};
    bool threw = false, stopped = false, never_ran = true;
    const auto wait_for_stop = [&]() -> rl::task<void> {
        const auto work = [&](std::stop_token stop) {
            begun = true;
            while (!stop.stop_requested()) std::this_thread::yield();
            return true;
        };
        stopped = co_await rl::offload(arena, work);
        try {
            co_await rl::offload(arena, [&] { never_ran = false; });
        } catch (const rl::operation_cancelled&) {
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        try {
            co_await rl::offload(arena, [] { throw std::runtime_error("inside"); });
        } catch (const std::runtime_error&) {
            threw = true;
        }
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(wait_for_stop());
            while (!begun) co_await rl::sleep_for(std::chrono::milliseconds(1));
            group.cancel();
        });
    };
    r.run(scenario());
    CHECK(threw);
    CHECK(stopped);
    CHECK(never_ran);
}

TEST_CASE("many functions at once in one arena all come back", "[tbb]") {
    runner r(rl::testing::real_bodies().front());
    tbb::task_arena arena(2);
    std::atomic<int> ran{0};
    const auto one = [&]() -> rl::task<void> { co_await rl::offload(arena, [&] { ++ran; }); };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int i = 0; i < 200; ++i) group.spawn(one());
            co_return;
        });
    };
    r.run(scenario());
    CHECK(ran == 200);
}
