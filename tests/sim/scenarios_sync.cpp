// Scenarios of what coroutines share on one scheduler: channels, locks, generators, races.
#include "ringloop/generator.hpp"
#include "ringloop/interval.hpp"
#include "ringloop/sync/broadcast.hpp"
#include "ringloop/sync/channel.hpp"
#include "ringloop/sync/condition.hpp"
#include "ringloop/sync/latch.hpp"
#include "ringloop/sync/semaphore.hpp"
#include "streams.hpp"

namespace sim {
namespace {

// ---- channel: two senders, two receivers, little room; every value arrives once

task<void> send_numbers(rl::channel<int>& to, int first) {
    for (int n = first; n < first + 10; ++n) co_await to.send(n);
}

task<void> add_up(rl::channel<int>& from, int& sum) {
    for (;;) {
        const auto number = co_await from.receive();
        if (!number) co_return;
        sum += *number;
        if (*number % 4 == 0) co_await rl::yield();
    }
}

task<void> through_channel(world& w) {
    rl::channel<int> numbers(2);
    int sum = 0;
    co_await rl::with_group([&](rl::task_group& receivers) -> task<void> {
        receivers.spawn(add_up(numbers, sum));
        receivers.spawn(add_up(numbers, sum));
        co_await rl::with_group([&](rl::task_group& senders) -> task<void> {
            senders.spawn(send_numbers(numbers, 0));
            senders.spawn(send_numbers(numbers, 10));
            co_return;
        });
        numbers.close();
    });
    w.must_if_clean(sum == 190, "every value arrives once");
}
const registered channel_scenario({.name = "channel", .body = through_channel});

// ---- broadcast: a quick subscriber gets all, a slow one is told what it missed

task<void> subscribe(rl::broadcast<int>::subscription from, std::chrono::nanoseconds pause,
                     std::uint64_t& seen) {
    for (;;) {
        try {
            const auto value = co_await from.receive();
            if (!value) co_return;
            ++seen;
        } catch (const rl::broadcast_lagged& late) {
            seen += late.missed();
        }
        co_await rl::sleep_for(pause);
    }
}

task<void> broadcasting(world& w) {
    rl::broadcast<int> news(4);
    std::uint64_t quick = 0, slow = 0;
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(subscribe(news.subscribe(), 1us, quick));
        group.spawn(subscribe(news.subscribe(), 100us, slow));
        for (int n = 0; n < 20; ++n) {
            news.send(n);
            co_await rl::sleep_for(10us);
        }
        news.close();
    });
    w.must_if_clean(quick == 20 && slow == 20, "each hears, or is told of, every value");
}
const registered broadcast_scenario({.name = "broadcast", .body = broadcasting});

// ---- locks: permits, a mutex with a condition, readers and a writer, some of them stopped

task<void> take_turn(rl::semaphore& permits, rl::shared_mutex& lock, int& inside, int& most,
                     bool writes) {
    const auto permit = co_await permits.acquire();
    rl::shared_mutex::guard guard;
    if (writes) {
        guard = co_await lock.lock();
    } else {
        guard = co_await lock.lock_shared();
    }
    most = std::max(most, ++inside);
    co_await rl::sleep_for(20us);
    --inside;
}

task<void> wait_for_number(rl::mutex& m, rl::condition& changed, const int& number) {
    auto lock = co_await m.lock();
    co_await changed.wait(lock, [&] { return number >= 3; });
}

task<void> locks(world& w) {
    rl::semaphore permits(2);
    rl::shared_mutex lock;
    int inside = 0, most = 0, number = 0;
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (int i = 0; i < 6; ++i) group.spawn(take_turn(permits, lock, inside, most, i % 3 == 2));
        co_return;
    });
    w.must(most <= 2 && permits.available() == 2 && !lock.is_locked(), "all was given back");
    rl::mutex m;
    rl::condition changed;
    rl::latch done(1);
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(wait_for_number(m, changed, number));
        while (number < 3) {
            co_await rl::yield();
            const auto held = co_await m.lock();
            ++number;
            changed.notify_one();
        }
        done.count_down();
    });
    co_await done.wait();
    w.must(!m.is_locked(), "the mutex is free");
}
const registered locks_scenario({.name = "locks", .body = locks});

// ---- race: when_any, when_all, shield, an interval and a generator

rl::generator<int> squares(int count) {
    for (int n = 0; n < count; ++n) {
        co_await rl::sleep_for(1us);
        co_yield n* n;
    }
}

task<int> later(std::chrono::nanoseconds delay, int value) {
    co_await rl::sleep_for(delay);
    co_return value;
}

task<void> race(world& w) {
    std::vector<task<int>> runners;
    for (int n = 1; n <= 3; ++n) runners.push_back(later(10us * n, n));
    const auto [index, value] = co_await rl::when_any(std::move(runners));
    w.must_if_clean(index == 0 && value == 1, "the fastest wins");
    const auto [a, b] = co_await rl::when_all(later(5us, 1), rl::shield(later(3us, 2)));
    w.must(a + b == 3, "all values are there");
    int sum = 0;
    rl::generator<int> all = squares(4);
    for (;;) {
        const auto next = co_await all.next();
        if (!next) break;
        sum += *next;
    }
    w.must(sum == 14, "a generator yields in order");
    rl::interval beat(10us);
    for (int n = 0; n < 3; ++n) w.must(co_await beat.next() >= 1, "an interval goes on");
}
const registered race_scenario({.name = "race", .body = race});

}  // namespace
}  // namespace sim
