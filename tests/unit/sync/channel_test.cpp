// channel and broadcast: order, bounds, hand-over, close, stops.
#include <memory>
#include <vector>

#include "unit/sync/support.hpp"

using namespace test;  // NOLINT

TEST_CASE("a channel gives everything once, in order, and waits at its bounds", "[sync]") {
    const auto capacity = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{7});
    CAPTURE(capacity);
    runner r = on_fake();
    rl::channel<int> numbers(capacity);
    std::vector<int> got;
    std::size_t most = 0;
    const auto sender = [&]() -> rl::task<void> {
        for (int i = 0; i < 100; ++i) {
            co_await numbers.send(i);
            most = std::max(most, numbers.size());
        }
        numbers.close();
    };
    const auto receiver = [&]() -> rl::task<void> {
        while (auto n = co_await numbers.receive()) got.push_back(*n);
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(sender());
            group.spawn(receiver());
            co_return;
        });
    };
    r.run(scenario());
    REQUIRE(got.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(got[static_cast<std::size_t>(i)] == i);
    CHECK(most == capacity);
}

TEST_CASE("several senders and receivers: nothing is lost or doubled", "[sync]") {
    runner r = on_fake();
    rl::channel<std::unique_ptr<int>> numbers(3);
    std::vector<int> seen(400, 0);
    rl::latch senders(4);
    const auto sender = [&](int from) -> rl::task<void> {
        for (int i = 0; i < 100; ++i) co_await numbers.send(std::make_unique<int>(from + i));
        senders.count_down();
    };
    const auto receiver = [&]() -> rl::task<void> {
        while (auto n = co_await numbers.receive()) {
            ++seen[static_cast<std::size_t>(**n)];
            if (**n % 7 == 0) co_await rl::yield();
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int i = 0; i < 4; ++i) group.spawn(sender(i * 100));
            for (int i = 0; i < 3; ++i) group.spawn(receiver());
            co_await senders.wait();
            numbers.close();
        });
    };
    r.run(scenario());
    CHECK(seen == std::vector<int>(400, 1));
}

TEST_CASE("close() ends waiting senders with an error and leaves what was sent", "[sync]") {
    runner r = on_fake();
    rl::channel<int> numbers(1);
    std::string log;
    const auto sender = [&]() -> rl::task<void> {
        co_await numbers.send(1);
        try {
            co_await numbers.send(2);
        } catch (const rl::channel_closed&) {
            log += 'c';
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(sender());
            co_await settle();
            numbers.close();
            const auto first = co_await numbers.receive();
            CHECK(first == 1);
            const auto second = co_await numbers.receive();
            CHECK_FALSE(second);
        });
    };
    r.run(scenario());
    CHECK(log == "c");
    int left = 5;
    CHECK_FALSE(numbers.try_send(std::move(left)));
    CHECK_FALSE(numbers.try_receive());
}

TEST_CASE("a stopped receive takes nothing; a value that was faster is returned", "[sync]") {
    runner r = on_fake();
    rl::channel<int> numbers(4);
    std::vector<int> got;
    const auto receiver = [&]() -> rl::task<void> {
        if (auto n = co_await numbers.receive()) got.push_back(*n);
    };
    std::string log;
    const bool faster = GENERATE(false, true);
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(trace(log, 'r', receiver()));
            co_await settle();
            int n = 7;
            if (faster) CHECK(numbers.try_send(std::move(n)));
            group.cancel();
        });
        int n = 8;
        CHECK(numbers.try_send(std::move(n)));
        co_await receiver();
    };
    r.run(scenario());
    CHECK(log == (faster ? "r" : "r!"));
    CHECK(got == (faster ? std::vector<int>{7, 8} : std::vector<int>{8}));
}

TEST_CASE("a stopped send has not sent", "[sync]") {
    runner r = on_fake();
    rl::channel<int> numbers(1);
    std::string log;
    const auto sender = [&](int n) -> rl::task<void> { co_await numbers.send(n); };
    const auto scenario = [&]() -> rl::task<void> {
        co_await sender(1);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(trace(log, 's', sender(2)));
            co_await settle();
            group.cancel();
        });
    };
    r.run(scenario());
    CHECK(log == "s!");
    CHECK(numbers.try_receive() == 1);
    CHECK_FALSE(numbers.try_receive());
}

TEST_CASE("every subscriber gets every value sent since it subscribed", "[sync]") {
    runner r = on_fake();
    rl::broadcast<int> numbers(8);
    std::vector<int> early;
    std::vector<int> late;
    const auto reader = [&](rl::broadcast<int>::subscription from,
                            std::vector<int>& into) -> rl::task<void> {
        while (auto n = co_await from.receive()) into.push_back(*n);
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(reader(numbers.subscribe(), early));
            numbers.send(1);
            group.spawn(reader(numbers.subscribe(), late));
            numbers.send(2);
            co_await settle();
            numbers.send(3);
            numbers.close();
        });
    };
    r.run(scenario());
    CHECK(early == std::vector<int>{1, 2, 3});
    CHECK(late == std::vector<int>{2, 3});
    CHECK_THROWS_AS(numbers.send(4), std::logic_error);
}

TEST_CASE("a slow subscriber is told how much it missed, once", "[sync]") {
    runner r = on_fake();
    rl::broadcast<int> numbers(4);
    std::vector<int> got;
    std::uint64_t missed = 0;
    const auto scenario = [&]() -> rl::task<void> {
        auto slow = numbers.subscribe();
        for (int i = 0; i < 10; ++i) numbers.send(i);
        numbers.close();
        try {
            static_cast<void>(co_await slow.receive());
        } catch (const rl::broadcast_lagged& lagged) {
            missed = lagged.missed();
        }
        while (auto n = co_await slow.receive()) got.push_back(*n);
    };
    r.run(scenario());
    CHECK(missed == 6);
    CHECK(got == std::vector<int>{6, 7, 8, 9});
    CHECK_THROWS_AS(rl::broadcast<int>(0), std::invalid_argument);
}

TEST_CASE("a stopped receive of a broadcast loses nothing", "[sync]") {
    runner r = on_fake();
    rl::broadcast<int> numbers(4);
    std::vector<int> got;
    auto mine = numbers.subscribe();
    const auto receive = [&]() -> rl::task<void> {
        if (auto n = co_await mine.receive()) got.push_back(*n);
    };
    std::string log;
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(trace(log, 'r', receive()));
            co_await settle();
            group.cancel();
        });
        numbers.send(5);
        co_await receive();
    };
    r.run(scenario());
    CHECK(log == "r!");
    CHECK(got == std::vector<int>{5});
}
