// event and latch: who is woken, what a stop does.
#include "unit/sync/support.hpp"

using namespace test;  // NOLINT

TEST_CASE("an event wakes all who wait, in order, and lets later ones through", "[sync]") {
    runner r = on_fake();
    rl::event ready;
    std::string log;
    const auto waiter = [&](char mark) -> rl::task<void> {
        co_await ready.wait();
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(waiter('a'));
            group.spawn(waiter('b'));
            co_await settle();
            log += '-';
            ready.set();
            CHECK(ready.is_set());
            group.spawn(waiter('c'));
        });
    };
    r.run(scenario());
    CHECK(log == "-abc");
}

TEST_CASE("reset() holds back those who begin to wait, not those who were woken", "[sync]") {
    runner r = on_fake();
    rl::event ready;
    std::string log;
    const auto waiter = [&](char mark) -> rl::task<void> {
        co_await ready.wait();
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(waiter('a'));
            co_await settle();
            ready.set();
            ready.reset();
            group.spawn(waiter('b'));
            co_await settle();
            log += '-';
            ready.set();
        });
    };
    r.run(scenario());
    CHECK(log == "a-b");
}

TEST_CASE("a stop ends a wait for an event and leaves the others waiting", "[sync]") {
    runner r = on_fake();
    rl::event ready;
    std::string log;
    const auto waiter = [&](char mark) -> rl::task<void> { co_await ready.wait(), log += mark; };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(waiter('a'));
            co_await rl::with_group([&](rl::task_group& stopped) -> rl::task<void> {
                stopped.spawn(trace(log, 's', waiter('x')));
                co_await settle();
                stopped.cancel();
            });
            ready.set();
        });
    };
    r.run(scenario());
    CHECK(log == "s!a");
}

TEST_CASE("a wait that begins after a stop request does not begin, even on a set event", "[sync]") {
    runner r = on_fake();
    rl::event ready(true);
    bool refused = false;
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.cancel();
            try {
                co_await ready.wait();
            } catch (const rl::operation_cancelled&) {
                refused = true;
            }
        });
    };
    r.run(scenario());
    CHECK(refused);
}

TEST_CASE("a latch opens at zero and not before", "[sync]") {
    runner r = on_fake();
    rl::latch done(3);
    std::string log;
    const auto party = [&](char mark) -> rl::task<void> {
        co_await done.arrive_and_wait();
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(party('a'));
            group.spawn(party('b'));
            co_await settle();
            log += '-';
            CHECK(done.left() == 1);
            done.count_down();
        });
        co_await done.wait();
    };
    r.run(scenario());
    CHECK(log == "-ab");
    CHECK_THROWS_AS(done.count_down(), std::invalid_argument);
}

TEST_CASE("a latch of nothing is open", "[sync]") {
    runner r = on_fake();
    rl::latch done(0);
    const auto scenario = [&]() -> rl::task<void> { co_await done.wait(); };
    r.run(scenario());
}
