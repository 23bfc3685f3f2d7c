// The scheduler: posts, stop, sleeping tasks, bounded drains, on every body.
#include <thread>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

TEST_CASE("run() returns when nothing is left that could make progress", "[scheduler]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    r.home.run();
    struct once : rl::timer {
        once() : timer([](rl::timer& t) noexcept { static_cast<once&>(t).fired = true; }) {}
        bool fired = false;
    } t;
    const std::int64_t now_ns = r.home.now_ns();
    r.home.timers().insert(t, now_ns + 1'000'000, now_ns);
    r.home.run();
    CHECK(t.fired);
    CHECK(r.home.now_ns() >= now_ns + 1'000'000);
}

TEST_CASE("stop() from another thread ends a run that waits", "[scheduler]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    r.home.hold();
    std::thread other([&] { r.home.stop(); });
    r.home.run();
    other.join();
    r.home.release();
}

TEST_CASE("everything posted by four threads runs once, each thread's in order", "[scheduler]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    constexpr int threads = 4;
    constexpr int each = 5000;
    struct note : rl::posted {
        note() : posted(&note::arrive) {}
        static void arrive(rl::posted& self) noexcept {
            auto& n = static_cast<note&>(self);
            if (n.seen[n.thread]++ != n.number) *n.disorder = true;
            if (++*n.total == threads * each) n.home->stop();
        }
        int thread = 0, number = 0;
        int* seen = nullptr;
        int* total = nullptr;
        bool* disorder = nullptr;
        rl::scheduler* home = nullptr;
    };
    std::vector<note> notes(threads * each);
    int seen[threads] = {};
    int total = 0;
    bool disorder = false;
    std::vector<std::thread> posters;
    for (int t = 0; t < threads; ++t) {
        posters.emplace_back([&, t] {
            for (int i = 0; i < each; ++i) {
                note& n = notes[static_cast<std::size_t>(t * each + i)];
                n.thread = t, n.number = i, n.seen = seen, n.total = &total;
                n.disorder = &disorder, n.home = &r.home;
                r.home.post(n);
            }
        });
    }
    r.home.hold();
    r.home.run();
    r.home.release();
    for (auto& p : posters) p.join();
    CHECK(total == threads * each);
    CHECK_FALSE(disorder);
}

TEST_CASE("run_native() makes at most the steps it is allowed", "[scheduler]") {
    runner r(rl::testing::all_bodies().back());
    struct note : rl::posted {
        note() : posted([](rl::posted& self) noexcept { ++*static_cast<note&>(self).count; }) {}
        int* count = nullptr;
    };
    std::vector<note> notes(10);
    int ran = 0;
    for (auto& n : notes) {
        n.count = &ran;
        r.home.post(n);
    }
    CHECK(r.home.run_native(3) == 3);
    CHECK(ran == 3);
    CHECK(r.home.has_native_work());
    CHECK(r.home.next_deadline_ns() == 0);
    CHECK(r.home.run_native() == 7);
    CHECK_FALSE(r.home.has_native_work());
    CHECK(r.home.next_deadline_ns() == rl::no_deadline);
}

TEST_CASE("sleeping tasks wake in the order of their deadlines, never early", "[scheduler]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::vector<int> order;
    bool early = false;
    const auto sleeper = [&](int ms) -> rl::task<void> {
        const std::int64_t until = r.home.now_ns() + ms * 1'000'000;
        co_await rl::sleep_until(until);
        if (r.home.now_ns() < until) early = true;
        order.push_back(ms);
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int ms : {9, 3, 6, 1}) group.spawn(sleeper(ms));
            co_return;
        });
    };
    r.run(scenario());
    CHECK(order == std::vector<int>{1, 3, 6, 9});
    CHECK_FALSE(early);
}

TEST_CASE("a million ready awaits through the scheduler need constant stack",
          "[scheduler][stack]") {
    runner r(rl::testing::all_bodies().back());
    const auto value = []() -> rl::task<int> { co_return 1; };
    const auto loop = [&]() -> rl::task<int> {
        int sum = 0;
        for (int i = 0; i < 1'000'000; ++i) sum += co_await value();
        co_return sum;
    };
    CHECK(r.run(loop()) == 1'000'000);
}
