// semaphore: permits, order in line, what a stop leaves.
#include "unit/sync/support.hpp"

using namespace test;  // NOLINT

TEST_CASE("no more than the permits are inside at once", "[sync]") {
    runner r = on_fake();
    rl::semaphore slots(3);
    int inside = 0;
    int most = 0;
    const auto visitor = [&]() -> rl::task<void> {
        const auto permit = co_await slots.acquire();
        most = std::max(most, ++inside);
        for (int i = 0; i < 3; ++i) co_await rl::yield();
        --inside;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int i = 0; i < 20; ++i) group.spawn(visitor());
            co_return;
        });
    };
    r.run(scenario());
    CHECK(most == 3);
    CHECK(slots.available() == 3);
}

TEST_CASE("who asks for less does not overtake the first in line", "[sync]") {
    runner r = on_fake();
    rl::semaphore slots(2);
    std::string log;
    const auto visitor = [&](char mark, std::size_t count) -> rl::task<void> {
        const auto permit = co_await slots.acquire(count);
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            auto held = co_await slots.acquire();
            group.spawn(visitor('a', 2));
            group.spawn(visitor('b', 1));
            co_await settle();
            CHECK(log.empty());
            CHECK_FALSE(slots.try_acquire());
            held.give_back();
        });
    };
    r.run(scenario());
    CHECK(log == "ab");
}

TEST_CASE("a stop of the first in line lets the next one in", "[sync]") {
    runner r = on_fake();
    rl::semaphore slots(1);
    std::string log;
    const auto visitor = [&](char mark, std::size_t count) -> rl::task<void> {
        const auto permit = co_await slots.acquire(count);
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            co_await rl::with_group([&](rl::task_group& stopped) -> rl::task<void> {
                stopped.spawn(trace(log, 's', visitor('x', 5)));
                co_await settle();
                group.spawn(visitor('a', 1));
                co_await settle();
                CHECK(log.empty());
                stopped.cancel();
            });
        });
    };
    r.run(scenario());
    CHECK((log == "s!a" || log == "as!"));
    CHECK(slots.available() == 1);
}

TEST_CASE("a permit that was faster than the stop is returned", "[sync]") {
    runner r = on_fake();
    rl::semaphore slots(0);
    std::string log;
    const auto visitor = [&]() -> rl::task<void> {
        const auto permit = co_await slots.acquire();
        log += 'p';
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(trace(log, 't', visitor()));
            co_await settle();
            slots.release();
            group.cancel();
        });
    };
    r.run(scenario());
    CHECK(log == "pt");
    CHECK(slots.available() == 1);
}

TEST_CASE("a permit can be moved, given back early, or kept for good", "[sync]") {
    rl::semaphore slots(2);
    {
        auto first = slots.try_acquire();
        REQUIRE(first);
        rl::semaphore::permit moved = std::move(*first);
        CHECK(moved);
        CHECK(slots.available() == 1);
        moved.give_back();
        CHECK_FALSE(moved);
        CHECK(slots.available() == 2);
        auto kept = slots.try_acquire(2);
        REQUIRE(kept);
        kept->forget();
    }
    CHECK(slots.available() == 0);
    slots.release(2);
    CHECK(slots.available() == 2);
}
