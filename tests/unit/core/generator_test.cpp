// generator, interval, when_any, shield, when_all of many.
#include <memory>
#include <stdexcept>
#include <vector>

#include "unit/sync/support.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

rl::generator<int> count_to(int last) {
    for (int i = 1; i <= last; ++i) {
        co_await rl::yield();
        co_yield i;
    }
}
rl::generator<std::unique_ptr<int>> then_fail() {
    co_yield std::make_unique<int>(1);
    throw std::runtime_error("out of numbers");
}
rl::task<int> after(std::chrono::milliseconds time, int value) {
    co_await rl::sleep_for(time);
    co_return value;
}
rl::task<void> nothing_after(std::chrono::milliseconds time) {
    co_await rl::sleep_for(time);
}
rl::task<int> fail_after(std::chrono::milliseconds time) {
    co_await rl::sleep_for(time);
    throw std::runtime_error("failed");
}

}  // namespace

TEST_CASE("a generator yields in order and then ends, also when asked again", "[generator]") {
    runner r = on_fake();
    std::vector<int> got;
    const auto scenario = [&]() -> rl::task<void> {
        auto numbers = count_to(5);
        while (auto n = co_await numbers.next()) got.push_back(*n);
        const auto after_the_end = co_await numbers.next();
        CHECK_FALSE(after_the_end);
    };
    r.run(scenario());
    CHECK(got == std::vector<int>{1, 2, 3, 4, 5});
}

TEST_CASE("what a generator throws is thrown by next(), once", "[generator]") {
    runner r = on_fake();
    std::string log;
    const auto scenario = [&]() -> rl::task<void> {
        auto numbers = then_fail();
        const auto first = co_await numbers.next();
        CHECK(**first == 1);
        try {
            static_cast<void>(co_await numbers.next());
        } catch (const std::runtime_error&) {
            log += 'x';
        }
        const auto ended = co_await numbers.next();
        CHECK_FALSE(ended);
    };
    r.run(scenario());
    CHECK(log == "x");
}

TEST_CASE("a generator may be left before its end, and before its beginning", "[generator]") {
    runner r = on_fake();
    const auto scenario = []() -> rl::task<void> {
        auto never_asked = count_to(3);
        auto numbers = count_to(3);
        const auto first = co_await numbers.next();
        CHECK(first == 1);
        rl::generator<int> empty;
        const auto none = co_await empty.next();
        CHECK_FALSE(none);
    };
    r.run(scenario());
}

TEST_CASE("a generator that yields a million values at once needs constant stack", "[generator]") {
    runner r = on_fake();
    const auto many = []() -> rl::generator<int> {
        for (int i = 0; i < 1'000'000; ++i) co_yield i;
    };
    const auto scenario = [&]() -> rl::task<long> {
        long sum = 0;
        auto numbers = many();
        while (auto n = co_await numbers.next()) sum += *n;
        co_return sum;
    };
    CHECK(r.run(scenario()) == 499'999'500'000L);
}

TEST_CASE("a stop of the reader ends what the generator waits for", "[generator]") {
    runner r = on_fake();
    bool stopped = false;
    const auto slow = [&]() -> rl::generator<int> {
        try {
            co_await rl::sleep_for(1h);
        } catch (const rl::operation_cancelled&) {
            stopped = true;
            throw;
        }
        co_yield 1;
    };
    const auto reader = [&]() -> rl::task<int> {
        auto numbers = slow();
        const auto n = co_await numbers.next();
        co_return n.value_or(0);
    };
    CHECK_THROWS_AS(r.run(rl::with_timeout(10ms, reader())), rl::timed_out);
    CHECK(stopped);
}

TEST_CASE("an interval does not drift, and says how many ticks were missed", "[timer]") {
    runner r = on_fake();
    const auto scenario = [&]() -> rl::task<void> {
        const std::int64_t begin = r.home.now_ns();
        rl::interval every(10ms);
        for (int i = 1; i <= 5; ++i) {
            const auto periods = co_await every.next();
            CHECK(periods == 1);
            CHECK(r.home.now_ns() - begin >= i * 10'000'000);
            CHECK(r.home.now_ns() - begin < i * 10'000'000 + 3'000'000);
            co_await rl::sleep_for(3ms);
        }
        co_await rl::sleep_for(35ms);
        const auto missed = co_await every.next();
        CHECK(missed == 3);
        CHECK_THROWS_AS(rl::interval(0ns), std::invalid_argument);
        CHECK_THROWS_AS(rl::interval(std::chrono::nanoseconds::min()), std::invalid_argument);
    };
    r.run(scenario());
}

TEST_CASE("an interval beyond the end of time never ticks", "[timer]") {
    runner r = on_fake();
    bool ticked = false;
    const auto scenario = [&]() -> rl::task<void> {
        rl::interval every(std::chrono::nanoseconds::max());
        try {
            co_await rl::with_timeout(1h, [&]() -> rl::task<void> {
                co_await every.next();
                ticked = true;
            }());
        } catch (const rl::timed_out&) {
        }
    };
    r.run(scenario());
    CHECK_FALSE(ticked);
}

TEST_CASE("when_any returns the first and stops the others", "[when]") {
    runner r = on_fake();
    const auto scenario = [&]() -> rl::task<void> {
        const std::int64_t begin = r.home.now_ns();
        const auto first = co_await rl::when_any(after(50ms, 1), after(5ms, 2), nothing_after(1h));
        CHECK(first.index() == 1);
        CHECK(std::get<1>(first) == 2);
        CHECK(r.home.now_ns() - begin < 40'000'000);
        const auto nothing = co_await rl::when_any(after(1h, 1), nothing_after(1ms));
        CHECK(nothing.index() == 1);
    };
    r.run(scenario());
}

TEST_CASE("when_any throws the first failure and has stopped the others", "[when]") {
    runner r = on_fake();
    const auto scenario = []() -> rl::task<void> {
        static_cast<void>(co_await rl::when_any(after(1h, 1), fail_after(1ms)));
    };
    CHECK_THROWS_WITH(r.run(scenario()), "failed");
}

TEST_CASE("when_any and when_all take any number of tasks", "[when]") {
    runner r = on_fake();
    const auto many = [](int count) {
        std::vector<rl::task<int>> tasks;
        for (int i = 0; i < count; ++i) tasks.push_back(after((count - i) * 1ms, i));
        return tasks;
    };
    const auto scenario = [&]() -> rl::task<void> {
        const auto all = co_await rl::when_all(many(5));
        CHECK(all == std::vector<int>{0, 1, 2, 3, 4});
        const auto first = co_await rl::when_any(many(5));
        CHECK(first == std::pair<std::size_t, int>{4, 4});
        const auto none = co_await rl::when_all(many(0));
        CHECK(none.empty());
    };
    r.run(scenario());
    CHECK_THROWS_AS(r.run(rl::when_any(many(0))), std::invalid_argument);
}

TEST_CASE("a shielded task is not reached by a stop; the next await is", "[when]") {
    runner r = on_fake();
    int value = 0;
    const auto shielded = [&]() -> rl::task<void> {
        value = co_await rl::shield(after(20ms, 7));
        co_await rl::yield();
        value = 8;
    };
    const auto scenario = [&]() -> rl::task<void> { co_await rl::with_timeout(5ms, shielded()); };
    CHECK_THROWS_AS(r.run(scenario()), rl::timed_out);
    CHECK(value == 7);
}
