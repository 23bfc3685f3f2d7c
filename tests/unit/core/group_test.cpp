// Groups, time limits, offload and run(): who ends whom, and what is thrown.
#include <sys/resource.h>

#include <csignal>
#include <stdexcept>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

rl::task<void> forever() {
    co_await rl::sleep_for(std::chrono::hours(1000));
}
rl::task<void> fail_with(const char* text) {
    co_await rl::yield();
    throw std::runtime_error(text);
}
rl::task<int> after(std::chrono::milliseconds time, int v) {
    co_await rl::sleep_for(time);
    co_return v;
}

}  // namespace

TEST_CASE("the first failure of a group stops the others and is thrown", "[group]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        co_await rl::with_group([](rl::task_group& group) -> rl::task<void> {
            group.spawn(forever());
            group.spawn(fail_with("first"));
            co_await forever();
        });
    };
    CHECK_THROWS_WITH(r.run(scenario()), "first");
}

TEST_CASE("a failure of the body stops the tasks and is thrown after they have ended", "[group]") {
    runner r(rl::testing::all_bodies().back());
    bool ended = false;
    const auto watched = [&]() -> rl::task<void> {
        try {
            co_await forever();
        } catch (const rl::operation_cancelled&) {
            ended = true;
            throw;
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(watched());
            co_await fail_with("body");
        });
    };
    CHECK_THROWS_WITH(r.run(scenario()), "body");
    CHECK(ended);
}

TEST_CASE("under on_error::log a failure ends its own task only, and is logged", "[group]") {
    runner r(rl::testing::all_bodies().back());
    static int logged;
    logged = 0;
    const auto previous = rl::set_error_log([](std::exception_ptr) noexcept { ++logged; });
    int value = 0;
    const auto set = [&]() -> rl::task<void> {
        for (int i = 0; i < 5; ++i) co_await rl::yield();
        value = 7;
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(fail_with("alone"), rl::on_error::log);
            group.spawn(set());
            co_return;
        });
    };
    r.run(scenario());
    rl::set_error_log(previous);
    CHECK(value == 7);
    CHECK(logged == 1);
}

TEST_CASE("a group that its owner cancels ends without an error", "[group]") {
    runner r(rl::testing::all_bodies().back());
    const auto scenario = []() -> rl::task<void> {
        co_await rl::with_group([](rl::task_group& group) -> rl::task<void> {
            group.spawn(forever());
            group.cancel();
            co_await forever();
        });
    };
    CHECK_NOTHROW(r.run(scenario()));
}

TEST_CASE("a frame's arguments are gone before the group is joined", "[group]") {
    runner r(rl::testing::all_bodies().back());
    const auto guard = std::make_shared<int>(1);
    const auto hold = [](std::shared_ptr<int>) -> rl::task<void> { co_return; };
    long left = 0;
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(hold(guard));
            co_return;
        });
        left = guard.use_count();
    };
    r.run(scenario());
    CHECK(left == 1);
}

TEST_CASE("with_timeout ends a task that takes too long, and returns one that does not", "[when]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    using std::chrono::hours;
    using std::chrono::milliseconds;
    CHECK_THROWS_AS(r.run(rl::with_timeout(milliseconds(1), after(hours(1), 1))), rl::timed_out);
    CHECK(r.run(rl::with_timeout(hours(1), after(milliseconds(1), 2))) == 2);
}

TEST_CASE("when_all gives the values in order", "[when]") {
    runner r(rl::testing::all_bodies().back());
    using std::chrono::milliseconds;
    const auto both = r.run(rl::when_all(after(milliseconds(2), 1), after(milliseconds(1), 2)));
    CHECK(both == std::tuple(1, 2));
}

TEST_CASE("offload returns the function's value, and throws what it throws", "[offload]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::thread_pool pool(2);
    const auto scenario = [&]() -> rl::task<int> {
        const auto here = std::this_thread::get_id();
        const bool elsewhere =
            co_await rl::offload(pool, [&] { return std::this_thread::get_id() != here; });
        CHECK(elsewhere);
        CHECK(std::this_thread::get_id() == here);
        int sum = 0;
        for (int i = 0; i < 500; ++i) sum += co_await rl::offload(pool, [i] { return i; });
        bool thrown = false;
        try {
            co_await rl::offload(pool, [] { throw std::runtime_error("in a worker"); });
        } catch (const std::runtime_error& e) {
            thrown = std::string(e.what()) == "in a worker";
        }
        CHECK(thrown);
        co_return sum;
    };
    CHECK(r.run(scenario()) == 499 * 500 / 2);
}

TEST_CASE("without a pool a function runs on the process's workers, below other threads",
          "[offload]") {
    runner r(rl::testing::real_bodies().back());
    const auto niceness = [] { return getpriority(PRIO_PROCESS, 0); };  // of this thread
    const int here = niceness();
    const auto scenario = [&]() -> rl::task<int> { co_return co_await rl::offload(niceness); };
    CHECK(r.run(scenario()) == std::min(here + 19, 19));
    CHECK(niceness() == here);
    CHECK(&rl::workers() == &rl::workers());
}

TEST_CASE("a stop reaches an offloaded function through its token, and waits for it", "[offload]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::thread_pool pool(1);
    int result = 0;
    const auto worker = [&]() -> rl::task<void> {
        result = co_await rl::offload(pool, [](std::stop_token token) {
            while (!token.stop_requested()) std::this_thread::yield();
            return 5;
        });
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(worker());
            co_await rl::yield();
            group.cancel();
        });
    };
    r.run(scenario());
    CHECK(result == 5);
}

TEST_CASE("a signal stops run() cleanly", "[run]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    const int number = GENERATE(SIGINT, SIGTERM);
    CAPTURE(body, number);
    const rl::testing::ledger before;
    bool ended = false;
    const auto service = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        std::thread other([number] { ::kill(::getpid(), number); });
        other.join();
        try {
            auto chunk = co_await pair.near.receive();
        } catch (const rl::operation_cancelled&) {
            ended = true;
            throw;
        }
    };
    rl::driver_config config;
    config.choice = body.kind;
    CHECK(rl::run(service(), config) == 0);
    CHECK(ended);
}

TEST_CASE("run() passes on what its task throws", "[run]") {
    CHECK_THROWS_WITH(rl::run(fail_with("out")), "out");
}
