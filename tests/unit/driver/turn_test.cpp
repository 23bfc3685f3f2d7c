// The turn: phases, bounds, deadlines, waking, starvation, on every body.
#include <cerrno>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

TEST_CASE("each phase delivers its own operations, at most as many as asked") {
    ON_EVERY_BODY(bench);
    std::vector<std::unique_ptr<recorder>> ops;
    for (int i = 0; i < 20; ++i) {
        ops.push_back(std::make_unique<recorder>(d, i % 2 == 1));
        ops.back()->prepare_nop();
        d.submit(*ops.back());
    }
    for (int i = 0; i < 100 && d.undelivered(phase::native) + d.undelivered(phase::host) < 20;
         ++i) {
        d.wait({});
    }
    CHECK(d.dispatch(phase::native, 3) == 3);
    CHECK(d.undelivered(phase::native) == 7);
    CHECK(d.dispatch(phase::native) == 7);
    CHECK(d.undelivered(phase::host) == 10);
    CHECK(d.dispatch(phase::host) == 10);
    CHECK(d.dispatch(phase::host) == 0);
}

TEST_CASE("a wait ends at its deadline and not before") {
    ON_EVERY_BODY(bench);
    const std::int64_t deadline_ns = d.now_ns() + 3'000'000;
    while (d.wait({.deadline_ns = deadline_ns}) != wait_result::timed_out) {
    }
    CHECK(d.now_ns() >= deadline_ns);
    CHECK(d.wait({.deadline_ns = deadline_ns}) == wait_result::timed_out);
}

TEST_CASE("a wait with undelivered completions does not block") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    op.prepare_nop();
    d.submit(op);
    for (int i = 0; i < 100 && d.undelivered(phase::native) == 0; ++i) d.wait({});
    CHECK(d.wait({}) == wait_result::ready);
    CHECK(d.dispatch(phase::native) == 1);
}

TEST_CASE("a wait does not sleep when has_work says that there is work") {
    ON_EVERY_BODY(bench);
    int asked = 0;
    const wait_request request{.has_work =
                                   [](void* count) {
                                       ++*static_cast<int*>(count);
                                       return true;
                                   },
                               .context = &asked};
    CHECK(d.wait(request) == wait_result::ready);
    CHECK(asked >= 1);
}

TEST_CASE("receives that find the pool empty wait for a buffer and lose nothing") {
    ON_EVERY_BODY(bench, .buffer_count = 4, .buffer_size = 512);
    constexpr int count = 100;
    const auto l = bench.listen();
    std::vector<workbench::pair> pairs;
    std::vector<std::unique_ptr<recorder>> ops;
    for (int i = 0; i < count; ++i) {
        pairs.push_back(bench.connect_to(l));
        ops.push_back(std::make_unique<recorder>(d));
        ops.back()->prepare_receive(pairs.back().far, true);
        d.submit(*ops.back());
        bench.send(pairs.back().near, std::string(2000, 'x'));
        CHECK(d.shutdown(pairs.back().near, SHUT_WR) == 0);
    }
    turn_until(d, [&] {
        return std::all_of(ops.begin(), ops.end(), [](const auto& op) { return op->over(); });
    });
    for (const auto& op : ops) {
        CHECK(op->data.size() == 2000);
        CHECK(op->result() == 0);
    }
    CHECK(d.counters().starved > 0);
    for (const auto& p : pairs) bench.close(p);
    CHECK(d.close(l.fd) == 0);
}

TEST_CASE("a receive that waits for a buffer is cancelled like any other") {
    ON_EVERY_BODY(bench, .buffer_count = 1, .buffer_size = 64);
    const auto p = bench.connect_pair();
    const auto q = bench.connect_pair();
    recorder holder(d);
    holder.keep = true;
    holder.prepare_receive(p.far, false);
    d.submit(holder);
    bench.send(p.near, "holds");
    turn_until(d, [&] { return holder.over(); });
    recorder starving(d);
    starving.prepare_receive(q.far, true);
    d.submit(starving);
    bench.send(q.near, "later");
    turn(d, 5'000'000);
    CHECK(starving.seen.empty());
    d.retire(starving);
    CHECK(starving.result() == -ECANCELED);
    starving.seen.clear();
    starving.prepare_receive(q.far, false);
    d.submit(starving);
    turn(d, 5'000'000);
    d.release_buffer(holder.seen[0].buffer);
    turn_until(d, [&] { return starving.over(); });
    CHECK(starving.data == "later");
    bench.close(p);
    bench.close(q);
}

TEST_CASE("the books count what was submitted and delivered") {
    ON_EVERY_BODY(bench);
    const auto before = d.counters();
    recorder op(d);
    for (int i = 0; i < 5; ++i) {
        op.prepare_nop();
        CHECK(op.run() == 0);
    }
    CHECK(d.counters().submitted - before.submitted == 5);
    CHECK(d.counters().completions - before.completions == 5);
}
