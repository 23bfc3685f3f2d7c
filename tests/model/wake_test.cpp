// The scheduler's inbox and the driver's sleep flag in every interleaving: what is posted is run,
// once and whole, and nobody sleeps over it. Each model is run again with a fault in its accesses,
// and must then fail: so the orders that the sources name are needed.
#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "model/atomic.hpp"
#include "ringloop/detail/sleep_flag.hpp"
#include "ringloop/inbox.hpp"

using model::fault;

namespace {

struct message : ringloop::posted {
    model::plain<int> content{0};
    int runs = 0;
};

struct loop {
    ringloop::basic_inbox<model::atomic> inbox;
    ringloop::detail::basic_sleep_flag<model::atomic> sleep;
    model::atomic<bool> stop{false};
    std::array<message, 2> messages;
    unsigned eventfd = 0;  // the kernel's: orders by itself
    unsigned signals = 0;
    unsigned sleeps = 0;

    void wake() {
        if (!sleep.claim_wake()) return;
        ++eventfd;
        ++signals;
    }
    // As driver::wait() and a body's wait do it.
    template <class HasWork>
    void rest(HasWork has_work) {
        sleep.announce();
        ++sleeps;
        if (!has_work()) {
            model::wait_until([this] { return eventfd != 0; });
            eventfd = 0;
        }
        static_cast<void>(sleep.end());
    }
    void post(std::size_t number) {
        messages[number].content.write(7);
        inbox.push(messages[number]);
        wake();
    }
    void serve(std::size_t count) {
        for (std::size_t ran = 0; ran != count;) {
            for (ringloop::posted* each = inbox.take_all(); each != nullptr; each = each->next) {
                auto& mine = static_cast<message&>(*each);
                model::check(mine.content.read() == 7, "a message was not whole");
                ++mine.runs;
                ++ran;
            }
            if (ran != count) rest([this] { return !inbox.empty(); });
        }
    }
};

model::program posts() {
    auto all = std::make_shared<loop>();
    return {.threads = {[all] { all->serve(2); }, [all] { all->post(0); }, [all] { all->post(1); }},
            .at_end = [all] {
                for (const message& each : all->messages)
                    model::check(each.runs == 1, "a message was not run once");
                model::check(all->signals <= all->sleeps, "more than one signal for a sleep");
            }};
}

// scheduler::stop(), whose flag the owner's look reads relaxed.
model::program stops() {
    auto all = std::make_shared<loop>();
    return {
        .threads = {[all] {
                        while (!all->stop.load(std::memory_order_relaxed))
                            all->rest([&] { return all->stop.load(std::memory_order_relaxed); });
                    },
                    [all] {
                        all->stop.store(true, std::memory_order_release);
                        all->wake();
                    }},
        .at_end = {}};
}

std::string failure_with(model::program (*make)(), fault seeded) {
    return model::explore(make, {.seeded = seeded}).failure;
}

}  // namespace

TEST_CASE("two producers post to a loop that falls asleep: nothing is lost, torn or run twice") {
    const model::outcome all = model::explore(&posts, {.preemptions_max = 3, .stale_max = 2});
    INFO("after " << all.runs << " runs");
    CHECK(all.failure == "");
    CHECK(all.complete);
    CHECK(all.runs > 1000);
}

TEST_CASE("a stop reaches a loop that falls asleep") {
    const model::outcome all = model::explore(&stops);
    CHECK(all.failure == "");
    CHECK(all.complete);
}

TEST_CASE("the model sees an inbox that publishes or takes without order") {
    CHECK(failure_with(&posts, fault::release_is_relaxed) == "a race on plain memory");
    CHECK(failure_with(&posts, fault::acquire_is_relaxed) == "a race on plain memory");
}

TEST_CASE("the model sees a waker that only loads the sleep flag: a wake-up is lost") {
    const std::string lost = "every thread is blocked: a wake-up was lost";
    CHECK(failure_with(&posts, fault::idle_rmw_is_load) == lost);
    CHECK(failure_with(&stops, fault::idle_rmw_is_load) == lost);
}
