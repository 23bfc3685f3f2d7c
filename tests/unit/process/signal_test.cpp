// Signals: each told once, whichever thread they hit, none lost to a stop; one set a signal; what
// was there before is put back.
#include <pthread.h>
#include <signal.h>

#include <thread>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

using rl::signal_set;

struct sigaction disposition_of(int number) {
    struct sigaction found {};
    sigaction(number, nullptr, &found);
    return found;
}

void send(int number) {
    ::kill(getpid(), number);
}

rl::task<void> take_one(signal_set& signals, std::vector<int>& taken) {
    const int number = co_await signals.next();
    taken.push_back(number);
}

}  // namespace

TEST_CASE("each signal is told once, to whoever waits or will", "[signal]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::vector<int> taken;
    const auto scenario = [&]() -> rl::task<void> {
        signal_set signals(SIGUSR1, SIGUSR2);
        send(SIGUSR2);
        send(SIGUSR2);
        send(SIGUSR1);
        for (int i = 0; i < 3; ++i) co_await take_one(signals, taken);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(take_one(signals, taken));
            group.spawn(take_one(signals, taken));
            co_await rl::sleep_for(std::chrono::milliseconds(1));
            send(SIGUSR1);
            co_await rl::sleep_for(std::chrono::milliseconds(1));
            send(SIGUSR2);
        });
        bool more = true;
        try {
            co_await rl::with_timeout(std::chrono::milliseconds(1), take_one(signals, taken));
        } catch (const rl::timed_out&) {
            more = false;
        }
        CHECK_FALSE(more);
    };
    r.run(scenario());
    CHECK(taken == std::vector<int>{SIGUSR1, SIGUSR2, SIGUSR2, SIGUSR1, SIGUSR2});
}

TEST_CASE("a signal that hits another thread ends the wait of ours", "[signal]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    int got = 0;
    const auto scenario = [&]() -> rl::task<void> {
        signal_set signals(SIGUSR1);
        std::thread other([] { pthread_kill(pthread_self(), SIGUSR1); });
        got = co_await signals.next();
        other.join();
    };
    r.run(scenario());
    CHECK(got == SIGUSR1);
}

TEST_CASE("many signals from other threads are all told", "[signal]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    constexpr int each = 500;
    int count = 0;
    const auto scenario = [&]() -> rl::task<void> {
        signal_set signals(SIGUSR1, SIGUSR2);
        const auto fire = [](int number) {
            // To the thread itself: such a signal has been handled when the call returns.
            for (int i = 0; i < each; ++i) pthread_kill(pthread_self(), number);
        };
        std::thread one(fire, SIGUSR1);
        std::thread two(fire, SIGUSR2);
        for (; count < 2 * each; ++count) static_cast<void>(co_await signals.next());
        one.join();
        two.join();
    };
    r.run(scenario());
    CHECK(count == 2 * each);
}

TEST_CASE("a stopped wait for a signal loses none", "[signal][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::vector<int> taken;
    const auto scenario = [&]() -> rl::task<void> {
        signal_set signals(SIGUSR1);
        for (const bool before : {false, true}) {
            co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
                group.spawn(take_one(signals, taken));
                co_await rl::yield();
                if (before) send(SIGUSR1);
                group.cancel();
            });
        }
        send(SIGUSR1);
        while (taken.size() < 2) co_await take_one(signals, taken);
    };
    r.run(scenario());
    CHECK(taken.size() == 2);
}

TEST_CASE("a signal has one set at a time, and its old disposition afterwards", "[signal]") {
    const rl::testing::ledger before;
    struct sigaction ours {};
    ours.sa_handler = [](int) {};
    ours.sa_flags = SA_NODEFER;
    struct sigaction original {};
    sigaction(SIGUSR1, &ours, &original);
    const int flags = disposition_of(SIGUSR1).sa_flags;
    {
        signal_set first(SIGUSR1);
        CHECK(disposition_of(SIGUSR1).sa_handler != ours.sa_handler);
        CHECK_THROWS_AS(signal_set(SIGUSR2, SIGUSR1), std::logic_error);
        CHECK(disposition_of(SIGUSR2).sa_handler == SIG_DFL);
        CHECK_THROWS_AS(signal_set(SIGUSR2, SIGUSR2), std::logic_error);
        CHECK(disposition_of(SIGUSR2).sa_handler == SIG_DFL);
        const signal_set beside(SIGUSR2);
        const signal_set moved = std::move(first);
        CHECK(disposition_of(SIGUSR1).sa_handler != ours.sa_handler);
    }
    CHECK(disposition_of(SIGUSR1).sa_handler == ours.sa_handler);
    CHECK(disposition_of(SIGUSR1).sa_flags == flags);
    {
        const signal_set again(SIGUSR1);
        sigaction(SIGUSR1, &ours, nullptr);  // somebody takes it over
    }
    CHECK(disposition_of(SIGUSR1).sa_handler == ours.sa_handler);
    sigaction(SIGUSR1, &original, nullptr);
}

TEST_CASE("signals that cannot be waited for are refused", "[signal]") {
    for (const int number : {0, -1, NSIG, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
        CAPTURE(number);
        CHECK_THROWS_AS(signal_set(number), std::invalid_argument);
    }
}
