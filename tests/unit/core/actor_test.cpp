// Actors: order, bounded mailboxes, restarts, ends, on their own scheduler and on another.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

// Adds up; -1 fails, 0 waits for the gate.
struct adder {
    using message = int;
    static inline std::atomic<int> alive = 0;
    rl::event* gate;
    int sum = 0;

    explicit adder(rl::event* waits_for = nullptr) : gate(waits_for) { ++alive; }
    adder(const adder&) = delete;
    adder& operator=(const adder&) = delete;
    ~adder() { --alive; }
    rl::task<int> handle(int n) {
        if (n < 0) throw std::runtime_error("negative");
        if (n == 0) co_await gate->wait();
        co_return sum += n;
    }
};

std::unique_ptr<adder> make_adder() {
    return std::make_unique<adder>();
}

template <class T>
rl::task<std::string> failure_of(rl::task<T> work) {
    try {
        co_await std::move(work);
    } catch (const std::exception& e) {
        co_return e.what();
    }
    co_return "";
}

const std::string full_text = rl::mailbox_full().what();
const std::string ended_text = rl::actor_ended().what();

}  // namespace

TEST_CASE("an actor handles its messages in order, on its own thread", "[actor]") {
    struct recorder {
        using message = int;
        std::vector<int>& seen;
        std::vector<std::thread::id>& where;
        rl::task<void> handle(int n) {
            seen.push_back(n);
            where.push_back(std::this_thread::get_id());
            co_await rl::yield();
        }
    };
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::scheduler_pool_options options;
    options.threads = 1;
    options.driver.choice = body.kind;
    rl::scheduler_pool pool(options);
    std::vector<int> seen;
    std::vector<std::thread::id> where;
    rl::actor<recorder> one(pool[0],
                            [&] {
                                return std::unique_ptr<recorder>(new recorder{seen, where});
                            },
                            {.mailbox = 2});
    auto tell_all = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(one.serve());
        for (int i = 0; i < 100; ++i) co_await one.tell(i);
        co_await one.ask(100);
        co_await one.close();
    };
    r.run(rl::with_group(tell_all));
    REQUIRE(seen.size() == 101);
    for (int i = 0; i < 101; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
    for (const auto& thread : where) CHECK(thread != std::this_thread::get_id());
}

TEST_CASE("a full mailbox blocks, drops or throws", "[actor]") {
    runner r(rl::testing::real_bodies().front());
    const auto full = GENERATE(rl::when_full::block, rl::when_full::drop, rl::when_full::error);
    rl::event gate;
    rl::actor<adder> one(r.home, [&] { return std::make_unique<adder>(&gate); },
                         {.mailbox = 1, .full = full});
    std::string told, asked;
    bool waited = false;
    int sum = 0;
    auto fill = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(one.serve());
        co_await one.tell(0);  // is being handled
        co_await rl::sleep_for(1ms);
        co_await one.tell(1);  // fills the mailbox
        if (full == rl::when_full::block) {
            try {
                co_await rl::with_timeout(5ms, one.tell(2));
            } catch (const std::exception&) {
                waited = true;
            }
        } else {
            told = co_await failure_of(one.tell(2));
            asked = co_await failure_of(one.ask(2));
        }
        gate.set();
        co_await rl::sleep_for(1ms);
        sum = co_await one.ask(10);
        co_await one.close();
    };
    r.run(rl::with_group(fill));
    CHECK(sum == 11);  // what was refused, or stopped while it waited, was not handled
    CHECK(waited == (full == rl::when_full::block));
    CHECK(one.dropped() == (full == rl::when_full::drop ? 1U : 0U));
    CHECK(told == (full == rl::when_full::error ? full_text : ""));
    CHECK(asked == (full == rl::when_full::block ? "" : full_text));
    CHECK(adder::alive == 0);
}

TEST_CASE("a mailbox without room is refused", "[actor]") {
    runner r(rl::testing::real_bodies().front());
    CHECK_THROWS_AS(rl::actor<adder>(r.home, make_adder, {.mailbox = 0}), std::invalid_argument);
}

TEST_CASE("an actor that fails is made anew, its mail kept", "[actor]") {
    runner r(rl::testing::real_bodies().front());
    rl::actor<adder> one(r.home, make_adder, {.max_restarts = 1});
    int after = 0;
    auto restart = [&](rl::task_group& group) -> rl::task<void> {
        co_await one.tell(5);
        co_await one.tell(-1);
        co_await one.tell(7);  // all wait for serve()
        group.spawn(one.serve());
        after = co_await one.ask(1);
        co_await one.close();
    };
    r.run(rl::with_group(restart));
    CHECK(after == 8);  // the 5 went with the first handler
    CHECK(one.restarts() == 1);
    CHECK(adder::alive == 0);
}

TEST_CASE("too many failures within the window end an actor, fewer do not", "[actor]") {
    const bool apart = GENERATE(false, true);
    runner r(rl::testing::real_bodies().front());
    rl::actor<adder> one(r.home, make_adder, {.max_restarts = 1, .window = 20ms});
    std::string first, second, left, later, served;
    auto fail_twice = [&]() -> rl::task<void> {
        first = co_await failure_of(one.ask(-1));
        if (apart) co_await rl::sleep_for(30ms);
        auto [a, b] = co_await rl::when_all(failure_of(one.ask(-1)), failure_of(one.ask(3)));
        second = a;
        left = b;
        later = co_await failure_of(one.ask(4));
        co_await one.close();
    };
    auto serve = [&]() -> rl::task<void> { served = co_await failure_of(one.serve()); };
    auto both = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(serve());
        group.spawn(fail_twice());
        co_return;
    };
    r.run(rl::with_group(both));
    CHECK(first == "negative");
    CHECK(second == "negative");
    CHECK(left == (apart ? "" : ended_text));
    CHECK(later == (apart ? "" : ended_text));
    CHECK(served == (apart ? "" : "negative"));
    CHECK(one.restarts() == (apart ? 2U : 1U));
    CHECK(adder::alive == 0);
}

TEST_CASE("a stop of serve() ends who is handled, who waits and the handler", "[actor]") {
    runner r(rl::testing::real_bodies().front());
    rl::event gate;
    rl::actor<adder> one(r.home, [&] { return std::make_unique<adder>(&gate); }, {.mailbox = 1});
    std::string handled, mailed, blocked;
    auto note = [&](int n, std::string& into) -> rl::task<void> {
        into = co_await failure_of(one.ask(n));
    };
    auto ask_three = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(note(0, handled));
        group.spawn(note(1, mailed));
        group.spawn(note(2, blocked));
        try {
            co_await rl::with_timeout(5ms, one.serve());
        } catch (const std::exception&) {
        }
    };
    r.run(rl::with_group(ask_three));
    CHECK(handled == ended_text);
    CHECK(mailed == ended_text);
    CHECK(blocked == ended_text);
    CHECK(adder::alive == 0);
}

TEST_CASE("an asker that is stopped leaves its message to be handled", "[actor]") {
    runner r(rl::testing::real_bodies().front());
    rl::event gate;
    rl::actor<adder> one(r.home, [&] { return std::make_unique<adder>(&gate); });
    int sum = 0;
    bool stopped = false;
    auto leave = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(one.serve());
        co_await one.tell(0);
        try {
            co_await rl::with_timeout(5ms, one.ask(2));
        } catch (const std::exception&) {
            stopped = true;
        }
        gate.set();
        sum = co_await one.ask(1);
        co_await one.close();
    };
    r.run(rl::with_group(leave));
    CHECK(stopped);
    CHECK(sum == 3);
    CHECK(adder::alive == 0);
}
