// mutex, shared_mutex and condition: exclusion across awaits, fairness, stops.
#include <deque>
#include <stdexcept>

#include "unit/sync/support.hpp"

using namespace test;  // NOLINT

TEST_CASE("a mutex is held across awaits and handed over in order", "[sync]") {
    runner r = on_fake();
    rl::mutex m;
    std::string log;
    const auto visitor = [&](char mark) -> rl::task<void> {
        const auto lock = co_await m.lock();
        log += mark;
        co_await settle();
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (const char mark : {'a', 'b', 'c'}) group.spawn(visitor(mark));
            co_await rl::yield();
            CHECK_FALSE(m.try_lock());
        });
    };
    r.run(scenario());
    CHECK(log == "aabbcc");
    CHECK_FALSE(m.is_locked());
}

TEST_CASE("readers share, a writer is alone and keeps later readers back", "[sync]") {
    runner r = on_fake();
    rl::shared_mutex m;
    std::string log;
    const auto read = [&](char mark) -> rl::task<void> {
        const auto lock = co_await m.lock_shared();
        log += mark;
        co_await settle();
        log += mark;
    };
    const auto write = [&]() -> rl::task<void> {
        const auto lock = co_await m.lock();
        log += 'W';
        co_await settle();
        log += 'W';
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(read('a'));
            group.spawn(read('b'));
            group.spawn(write());
            group.spawn(read('c'));
            co_return;
        });
    };
    r.run(scenario());
    CHECK(log == "ababWWcc");
}

TEST_CASE("a writer in line that is stopped lets the readers behind it in", "[sync]") {
    runner r = on_fake();
    rl::shared_mutex m;
    std::string log;
    const auto write = [&]() -> rl::task<void> { const auto lock = co_await m.lock(); };
    const auto read = [&]() -> rl::task<void> {
        const auto lock = co_await m.lock_shared();
        log += 'r';
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            const auto held = co_await m.lock_shared();
            co_await rl::with_group([&](rl::task_group& stopped) -> rl::task<void> {
                stopped.spawn(trace(log, 'w', write()));
                co_await settle();
                group.spawn(read());
                co_await settle();
                CHECK(log.empty());
                stopped.cancel();
            });
            co_await settle();
            CHECK(log.find('r') != std::string::npos);
        });
    };
    r.run(scenario());
    CHECK_FALSE(m.is_locked());
}

TEST_CASE("a condition waits with the mutex let go and returns with it held", "[sync]") {
    runner r = on_fake();
    rl::mutex m;
    rl::condition changed;
    std::deque<int> queue;
    std::vector<int> taken;
    const auto consumer = [&]() -> rl::task<void> {
        for (int i = 0; i < 3; ++i) {
            auto lock = co_await m.lock();
            co_await changed.wait(lock, [&] { return !queue.empty(); });
            CHECK(lock);
            CHECK(m.is_locked());
            taken.push_back(queue.front());
            queue.pop_front();
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(consumer());
            for (int i = 0; i < 3; ++i) {
                co_await settle();
                const auto lock = co_await m.lock();
                queue.push_back(i);
                changed.notify_one();
            }
        });
    };
    r.run(scenario());
    CHECK(taken == std::vector<int>{0, 1, 2});
    CHECK_FALSE(m.is_locked());
}

TEST_CASE("a notify that a stopped waiter had got goes to the next", "[sync]") {
    runner r = on_fake();
    rl::mutex m;
    rl::condition changed;
    std::string log;
    const auto waiter = [&](char mark) -> rl::task<void> {
        auto lock = co_await m.lock();
        co_await changed.wait(lock);
        log += mark;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            co_await rl::with_group([&](rl::task_group& stopped) -> rl::task<void> {
                stopped.spawn(trace(log, 's', waiter('x')));
                co_await settle();
                group.spawn(waiter('b'));
                co_await settle();
                changed.notify_one();
                stopped.cancel();
            });
        });
    };
    r.run(scenario());
    CHECK(log == "s!b");
    CHECK_FALSE(m.is_locked());
}

TEST_CASE("a condition refuses a guard that holds nothing", "[sync]") {
    runner r = on_fake();
    rl::condition changed;
    const auto scenario = [&]() -> rl::task<void> {
        rl::mutex::guard none;
        co_await changed.wait(none);
    };
    CHECK_THROWS_AS(r.run(scenario()), std::logic_error);
}
