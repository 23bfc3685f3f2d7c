// The timer wheel alone: order, cancel, bounds, and a differential test against a sorted set.
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ringloop/driver.hpp"
#include "ringloop/timer.hpp"

namespace {

using ringloop::timer;
using ringloop::timer_wheel;

constexpr std::int64_t millisecond_ns = 1'000'000;

struct probe : timer {
    explicit probe(std::vector<int>* fired_, int id_ = 0)
        : timer(&probe::fire), fired(fired_), id(id_) {}
    static void fire(timer& t) noexcept {
        auto& self = static_cast<probe&>(t);
        self.fired->push_back(self.id);
    }
    std::vector<int>* fired;
    int id;
};

}  // namespace

TEST_CASE("a timer never fires before its nanosecond", "[timer]") {
    timer_wheel wheel;
    std::vector<int> fired;
    probe t(&fired);
    const std::int64_t start = 123'456'789;
    for (std::int64_t delay : {1LL, 99LL, 32'768LL, 5'000'000LL, 7'000'000'000LL, 1LL << 50}) {
        wheel.insert(t, start + delay, start);
        CHECK(wheel.expire(start + delay - 1) == 0);
        CHECK(wheel.next_deadline_ns() == start + delay);
        CHECK(wheel.expire(start + delay) == 1);
        wheel.insert(t, start + delay, start + delay);
        wheel.cancel(t);
    }
}

TEST_CASE("timers of one tick fire in nanosecond order, equal ones in order of insertion",
          "[timer]") {
    timer_wheel wheel;
    std::vector<int> fired;
    std::vector<std::unique_ptr<probe>> timers;
    const std::int64_t at[] = {500, 3, 500, 17, 3, 499};
    for (int i = 0; i < 6; ++i) {
        timers.push_back(std::make_unique<probe>(&fired, i));
        wheel.insert(*timers.back(), at[i], 0);
    }
    CHECK(wheel.expire(1000) == 6);
    CHECK(fired == std::vector<int>{1, 4, 3, 5, 0, 2});
}

TEST_CASE("cancel takes a timer out at once, also one that is due already", "[timer]") {
    timer_wheel wheel;
    std::vector<int> fired;
    probe a(&fired, 1), b(&fired, 2), c(&fired, 3);
    wheel.insert(a, 10, 0);
    wheel.insert(b, 20, 0);
    wheel.insert(c, 30 * millisecond_ns, 0);
    CHECK(wheel.expire(25, 1) == 1);  // b is due and waits for its turn
    wheel.cancel(b);
    wheel.cancel(c);
    wheel.cancel(c);
    CHECK(wheel.size() == 0);
    CHECK(wheel.next_deadline_ns() == ringloop::no_deadline);
    CHECK(wheel.expire(60 * millisecond_ns) == 0);
    CHECK(fired == std::vector<int>{1});
}

TEST_CASE("a handler may put its own timer back; it waits for the next expiry", "[timer]") {
    timer_wheel wheel;
    struct again : timer {
        explicit again(timer_wheel& w) : timer(&again::fire), wheel(&w) {}
        static void fire(timer& t) noexcept {
            auto& self = static_cast<again&>(t);
            ++self.count;
            self.wheel->insert(self, self.deadline_ns, self.deadline_ns);
        }
        timer_wheel* wheel;
        int count = 0;
    } t(wheel);
    wheel.insert(t, 5, 0);
    CHECK(wheel.expire(10) == 1);
    CHECK(t.count == 1);
    CHECK(wheel.expire(10) == 1);
    wheel.cancel(t);
}

TEST_CASE("a handler may cancel a timer that is due in the same expiry", "[timer]") {
    timer_wheel wheel;
    std::vector<int> fired;
    probe victim(&fired, 2);
    struct killer : timer {
        killer(timer_wheel& w, timer& v) : timer(&killer::fire), wheel(&w), victim(&v) {}
        static void fire(timer& t) noexcept {
            auto& self = static_cast<killer&>(t);
            self.wheel->cancel(*self.victim);
        }
        timer_wheel* wheel;
        timer* victim;
    } k(wheel, victim);
    wheel.insert(k, 5, 0);
    wheel.insert(victim, 6, 0);
    CHECK(wheel.expire(10) == 1);
    CHECK(fired.empty());
    CHECK(wheel.size() == 0);
}

TEST_CASE("the wheel agrees with a sorted set over random inserts, cancels and expiries",
          "[timer]") {
    const auto seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u);
    std::mt19937_64 random(seed);
    timer_wheel wheel;
    std::vector<int> fired;
    std::vector<std::unique_ptr<probe>> timers;
    using entry = std::pair<std::pair<std::int64_t, std::uint64_t>, int>;
    std::set<entry> model;
    for (int i = 0; i < 400; ++i) timers.push_back(std::make_unique<probe>(&fired, i));
    std::int64_t now = static_cast<std::int64_t>(random() % (1ULL << 45));
    const auto draw = [&](int bits) { return static_cast<std::int64_t>(random() >> (64 - bits)); };
    for (int step = 0; step < 40'000; ++step) {
        probe& t = *timers[random() % timers.size()];
        const auto action = random() % 8;
        if (action < 5) {
            if (t.armed()) {
                model.erase({{t.deadline_ns, t.sequence}, t.id});
                wheel.cancel(t);
            }
            const std::int64_t shift = draw(1 + static_cast<int>(random() % 45)) - 1000;
            if (action != 4) {
                wheel.insert(t, now + shift, now);
                model.insert({{t.deadline_ns, t.sequence}, t.id});
            }
        } else {
            now += draw(1 + static_cast<int>(random() % 42));
            const std::size_t max = action == 5 ? 3 : SIZE_MAX;
            const std::int64_t bound = wheel.next_deadline_ns();
            if (model.empty()) {
                REQUIRE(bound == ringloop::no_deadline);
            } else {
                REQUIRE(bound <= model.begin()->first.first);
            }
            fired.clear();
            wheel.expire(now, max);
            std::vector<int> expected;
            while (expected.size() < max && !model.empty() && model.begin()->first.first <= now) {
                expected.push_back(model.begin()->second);
                model.erase(model.begin());
            }
            REQUIRE(fired == expected);
        }
        REQUIRE(wheel.size() == model.size());
    }
    for (auto& t : timers) wheel.cancel(*t);
}
