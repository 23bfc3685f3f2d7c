// thread_pool: every item runs once, in order on one thread, whether its threads sleep or look.
#include "ringloop/thread_pool.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

namespace {

namespace rl = ringloop;

struct counted : rl::thread_pool::item {
    explicit counted(std::atomic<int>& runs_) noexcept
        : item([](item& self) noexcept { ++static_cast<counted&>(self).runs; }), runs(runs_) {}
    std::atomic<int>& runs;
};

void wait_until(const std::atomic<int>& value, int wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (value != wanted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    REQUIRE(value == wanted);
}

}  // namespace

TEST_CASE("items submitted while the only thread looks, sleeps or works all run") {
    std::atomic<int> runs = 0;
    rl::thread_pool pool(1);
    // From within its 20 us of looking to long after them.
    for (int pause_us : {0, 1, 5, 10, 15, 19, 20, 21, 25, 50, 200}) {
        for (int time = 0; time < 20; ++time) {
            counted first(runs), second(runs);
            const int before = runs;
            pool.submit(first);
            if (time % 2 == 0) wait_until(runs, before + 1);
            pool.submit(second);
            wait_until(runs, before + 2);
            std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        }
    }
}

TEST_CASE("two items that need each other get two threads although one looks for work") {
    struct meeting : rl::thread_pool::item {
        meeting(std::atomic<int>& here_, std::atomic<int>& left_, int all_) noexcept
            : item(&run_it), here(here_), left(left_), all(all_) {}
        static void run_it(item& self) noexcept {
            auto& mine = static_cast<meeting&>(self);
            ++mine.here;
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            while (mine.here < mine.all && std::chrono::steady_clock::now() < end)
                std::this_thread::yield();
            if (mine.here >= mine.all) ++mine.left;
        }
        std::atomic<int>& here;
        std::atomic<int>& left;
        const int all;
    };
    std::atomic<int> here = 0, left = 0;
    rl::thread_pool pool(2);
    for (int time = 1; time <= 200; ++time) {
        meeting one(here, left, 2 * time), other(here, left, 2 * time);
        pool.submit(one);
        pool.submit(other);
        wait_until(left, 2 * time);
        std::this_thread::sleep_for(std::chrono::microseconds(time % 40));
    }
}

TEST_CASE("items of several submitters run once each") {
    std::atomic<int> runs = 0;
    std::vector<std::vector<counted>> items(3);
    {
        rl::thread_pool pool(2);
        std::vector<std::thread> submitters;
        for (auto& mine : items) {
            mine.reserve(2000);
            submitters.emplace_back([&mine, &runs, &pool] {
                for (int i = 0; i < 2000; ++i) pool.submit(mine.emplace_back(runs));
            });
        }
        for (auto& each : submitters) each.join();
    }
    REQUIRE(runs == 6000);
}
