// The real ring under pressure: full queues, overflow, old kernels, stale answers.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "ringloop/kernel_abi.hpp"
#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

constexpr body ring{backend::uring};

struct counter : operation {
    counter()
        : operation([](operation& op, const completion& c) noexcept {
              auto& self = static_cast<counter&>(op);
              ++self.seen;
              self.last = c;
          }) {}
    int seen = 0;
    completion last;
};

}  // namespace

TEST_CASE("ten thousand operations in one turn all reach the kernel") {
    if (!ring_works_here()) return;
    workbench bench(ring);
    driver& d = *bench.d;
    std::vector<counter> ops(10'000);
    const std::uint64_t enters = d.counters().enters;
    for (counter& op : ops) {
        op.prepare_nop();
        d.submit(op);
    }
    turn_until(d, [&] { return d.in_flight() == 0; });
    for (const counter& op : ops) CHECK(op.seen == 1);
    CHECK(d.counters().enters - enters <= 64);
}

TEST_CASE("an overflowing completion queue loses nothing and keeps the order") {
    if (!ring_works_here()) return;
    workbench bench(ring, {.submission_entries = 8, .completion_entries = 16});
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.flush();
    std::string sent;
    std::uint64_t rounds = 0;
    while (op.seen.size() < 10'000) {
        // Many small arrivals while the consumer looks away.
        for (int i = 0; i < 100; ++i) {
            const std::string word = std::to_string(rounds++) + ",";
            bench.send(p.near, word);
            sent += word;
            d.flush();
        }
        turn(d);
    }
    turn_until(d, [&] { return op.data.size() == sent.size(); });
    CHECK((op.data == sent));
    CHECK(d.counters().overflows > 0);
    d.retire(op);
    bench.close(p);
}

TEST_CASE("an overflow of no-ops and polls loses nothing") {
    if (!ring_works_here()) return;
    workbench bench(ring, {.submission_entries = 16, .completion_entries = 16});
    driver& d = *bench.d;
    const int event = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    std::deque<recorder> polls;  // which do not move
    for (int i = 0; i < 50; ++i) {
        polls.emplace_back(d).prepare_poll(event, POLLIN, true);
        d.submit(polls.back());
    }
    std::vector<counter> ops(1'000);
    for (counter& op : ops) {
        op.prepare_nop();
        d.submit(op);
    }
    turn_until(d, [&] {
        return d.in_flight() == polls.size() &&
               std::all_of(polls.begin(), polls.end(),
                           [](const recorder& r) { return !r.seen.empty(); });
    });
    for (const counter& op : ops) CHECK(op.seen == 1);
    for (recorder& op : polls) {
        CHECK_FALSE(op.over());
        d.retire(op);
        CHECK(op.result() == -ECANCELED);
    }
    ::close(event);
}

TEST_CASE("a kernel with the opcodes of 6.1 has a full ring body") {
    if (!ring_works_here()) return;
    driver_config config{.choice = backend::uring};
    for (unsigned op = kernel_abi::op_last_of_6_1 + 1; op < kernel_abi::op_end; ++op) {
        config.masked_opcodes.push_back(op);
    }
    const auto d = make_driver(config);
    CHECK(d->what().chosen == backend::uring);
    CHECK(d->what().missing_opcodes.empty());
}

TEST_CASE("a missing opcode makes automatic fall back and an explicit choice fail, both by name") {
    driver_config config;
    config.masked_opcodes = {kernel_abi::op_statx};
    const auto d = make_driver(config);
    CHECK(d->what().chosen == backend::epoll);
    if (!ring_works_here()) return;
    CHECK(d->what().missing_opcodes == std::vector<std::string>{"STATX"});
    CHECK_THAT(d->what().reason, Catch::Contains("STATX"));
    config.choice = backend::uring;
    CHECK_THROWS_WITH(make_driver(config), Catch::Contains("STATX"));
}

TEST_CASE("nonsense in the configuration is named") {
    CHECK_THROWS_WITH(make_driver({.buffer_count = 3}), Catch::Contains("buffer_count is 3"));
    CHECK_THROWS_WITH(make_driver({.buffer_size = 0}), Catch::Contains("buffer_size is 0"));
    CHECK_THROWS_WITH(make_driver({.submission_entries = 32769}),
                      Catch::Contains("submission_entries is 32769"));
    CHECK_THROWS_AS(make_driver({.choice = backend::fake}), std::invalid_argument);
    CHECK_THROWS_WITH(parse_backend("iocp"), Catch::Contains("iocp"));
    CHECK(parse_backend("epoll") == backend::epoll);
}

TEST_CASE("nothing is submitted before the turn, and a busy turn enters only when asked") {
    if (!ring_works_here()) return;
    workbench bench(ring);
    driver& d = *bench.d;
    d.poll();
    const std::uint64_t before = d.counters().enters;
    for (int i = 0; i < 100; ++i) d.poll();
    CHECK(d.counters().enters == before);
    recorder op(d);
    op.prepare_nop();
    d.submit(op);
    CHECK(d.counters().enters == before);
    d.poll();
    CHECK(d.counters().enters == before + 1);
    d.dispatch(phase::native);
    CHECK(op.over());
}

TEST_CASE("a foreign poller sees when the ring has something") {
    const body chosen = GENERATE(from_range(real_bodies()));
    CAPTURE(chosen);
    workbench bench(chosen);
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.poll();
    d.dispatch(phase::native);
    bench.send(p.near, "guest");
    pollfd watch{d.pollable_fd(), POLLIN, 0};
    int ready = 0;
    for (int i = 0; i < 100 && ready != 1; ++i) ready = ::poll(&watch, 1, 1000);
    CHECK(ready == 1);
    d.poll();
    d.dispatch(phase::native);
    CHECK(op.data == "guest");
    d.retire(op);
    bench.close(p);
}
