// Every scenario with every one of its allocations failing in turn: it ends as ever or is told by
// bad_alloc, and nothing is left: no operation, buffer, descriptor or block of memory.
//
//     RINGLOOP_SIM_ONLY=echo           one scenario alone
//     RINGLOOP_SIM_ALLOCATION=17       one allocation alone
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "failing_new.hpp"
#include "ringloop/detail/frame_pool.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/sync_wait.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/testing/kernel_memory.hpp"
#include "streams.hpp"

using namespace sim;

namespace {

// ---- retried_receive: a reader for whom memory ran out goes on where it was; bytes used to be
// lost with the copy that could not be made

task<void> receive_into(sink& in, tcp_stream& stream, bool& over) {
    const auto chunk = co_await stream.receive();
    over = !chunk;
    in.take(chunk.bytes());
}

task<void> read_again_and_again(world& w, tcp_listener& listener) {
    tcp_stream stream = co_await listener.accept();
    sink in{w, 50};
    std::vector<rl::buffer_lease> held;  // most of the pool: what comes then is copied
    for (int n = 0; n < 3; ++n) {
        held.push_back(co_await stream.receive());
        in.take(held.back().bytes());
    }
    for (bool over = false; !over;) {
        try {
            co_await receive_into(in, stream, over);
        } catch (const std::bad_alloc&) {
            w.must(memory_shortage::has_failed(), "memory was short");
        }
    }
    w.must_if_clean(in.seen == 600, "everything arrived");
}

task<void> retried_receive(world& w) {
    auto listener = tcp_listener::bind(w.home, at(50));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(read_again_and_again(w, listener));
        tcp_stream stream = co_await tcp_stream::connect(at(50));
        for (std::size_t sent = 0; sent < 600; sent += 60) {
            co_await write_content(stream, 50, sent, 60);
            co_await rl::sleep_for(50us);  // the reader waits for each
        }
    });
}
const registered retried_scenario({.name = "retried_receive",
                                   .body = retried_receive,
                                   .configure = [](rl::testing::fake_config& config) {
                                       config.driver.buffer_count = 4;
                                       config.driver.buffer_size = 64;
                                   }});

struct shortage_run {
    outcome result;
    std::uint64_t asked = 0;
    std::int64_t left = 0;  // blocks
};

// On a thread of its own, whose frames all come from the heap: a pool that is warm would hide them.
shortage_run run_short(const scenario& what, std::uint64_t fails) {
    shortage_run seen;
    std::thread([&] {
        ringloop::detail::frames.opened = true;  // with room for none
        const memory_shortage shortage(fails);
        {
            const ringloop::testing::kernel_memory ours;
            variation how;
            how.fails_allocation = fails;
            const outcome result = run(what, how);
            seen.asked = memory_shortage::asked();
            if (!result.broken.empty()) {
                seen.result = result;
                return;
            }
        }
        seen.left = memory_shortage::balance();
    }).join();
    return seen;
}

void check(const scenario& what, std::uint64_t fails, const shortage_run& seen) {
    std::string text = what.name + " with allocation " + std::to_string(fails) + " failing";
    for (const std::string& rule : seen.result.broken) text += "\n  broken: " + rule;
    text += "\n" + seen.result.report;
    INFO(text);
    CHECK(seen.result.broken.empty());
    CHECK(seen.left == 0);
}

}  // namespace

TEST_CASE("an allocation that fails, whichever it is, hurts no scenario and leaves nothing") {
    const char* const only = std::getenv("RINGLOOP_SIM_ONLY");
    const char* const one = std::getenv("RINGLOOP_SIM_ALLOCATION");
    std::uint64_t runs = 0, chosen = 0;
    for (const scenario& what : scenarios()) {
        if (!what.exhaust || (only != nullptr && what.name != only)) continue;
        ++chosen;
        if (one != nullptr) {
            const std::uint64_t fails = std::strtoull(one, nullptr, 10);
            check(what, fails, run_short(what, fails));
            continue;
        }
        static_cast<void>(run_short(what, 0));  // what is made once and kept
        const shortage_run clean = run_short(what, 0);
        check(what, 0, clean);
        for (std::uint64_t fails = 1; fails <= clean.asked; ++fails, ++runs) {
            const shortage_run seen = run_short(what, fails);
            check(what, fails, seen);
        }
    }
    std::cout << "  " << chosen << " scenarios, " << runs << " failing allocations\n";
    if (only == nullptr) CHECK(chosen >= 20);
}

namespace {

ringloop::task<void> yield_once() {
    co_await ringloop::yield();
}

// Of the last hundred allocations one fails.
ringloop::task<void> spawn_many(std::uint64_t fails, std::uint64_t& asked) {
    co_await ringloop::with_group([&](ringloop::task_group& group) -> ringloop::task<void> {
        for (int i = 0; i < 950; ++i) group.spawn(yield_once());
        const memory_shortage shortage(fails);
        for (int i = 0; i < 100; ++i) group.spawn(yield_once());
        asked = memory_shortage::asked();
        co_return;
    });
}

}  // namespace

TEST_CASE("a ready queue that cannot grow refuses a spawn; it used to end the process") {
    std::uint64_t asked = 1, refused = 0;
    for (std::uint64_t fails = 0; fails <= asked; ++fails) {
        auto body = ringloop::testing::make_fake_driver();
        ringloop::scheduler home(std::move(body));
        try {
            ringloop::sync_wait(home, spawn_many(fails, asked));
        } catch (const std::bad_alloc&) {
            ++refused;
        }
        CHECK(home.io().in_flight() == 0);
    }
    CHECK(asked != 0);
    CHECK(refused == asked);
}
