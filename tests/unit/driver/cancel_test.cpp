// Cancel and retire, on every body: each operation, before and after it has completed.
#include <poll.h>

#include <cerrno>
#include <functional>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

struct waiting_kind {
    const char* name;
    std::function<void(recorder&, int fd)> prepare;
};

char scratch[64];

std::vector<waiting_kind> waiting_kinds() {
    return {
        {"receive", [](recorder& op, int fd) { op.prepare_receive(fd, false); }},
        {"repeating receive", [](recorder& op, int fd) { op.prepare_receive(fd, true); }},
        {"receive_into",
         [](recorder& op, int fd) { op.prepare_receive_into(fd, scratch, sizeof scratch); }},
        {"poll", [](recorder& op, int fd) { op.prepare_poll(fd, POLLIN); }},
        {"repeating poll", [](recorder& op, int fd) { op.prepare_poll(fd, POLLIN, true); }},
    };
}

}  // namespace

TEST_CASE("what waits for a peer is cancelled, submitted or not") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    for (const bool reached_kernel : {false, true}) {
        for (const waiting_kind& kind : waiting_kinds()) {
            CAPTURE(kind.name, reached_kernel);
            recorder op(d);
            kind.prepare(op, p.far);
            d.submit(op);
            if (reached_kernel) d.poll();
            d.cancel(op);
            d.cancel(op);
            CHECK(op.seen.empty());
            turn_until(d, [&] { return op.over(); });
            CHECK(op.seen.size() == 1);
            CHECK(op.result() == -ECANCELED);
        }
    }
    bench.send(p.near, "kept");
    CHECK(bench.take(p.far, 4) == "kept");
    bench.close(p);
}

TEST_CASE("a waiting accept is cancelled") {
    ON_EVERY_BODY(bench);
    const auto l = bench.listen();
    for (const bool repeat : {false, true}) {
        recorder op(d);
        op.prepare_accept(l.fd, repeat);
        d.submit(op);
        d.poll();
        d.cancel(op);
        turn_until(d, [&] { return op.over(); });
        CHECK(op.result() == -ECANCELED);
    }
    CHECK(d.close(l.fd) == 0);
}

TEST_CASE("a send that waits for room is cancelled") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    std::string chunk(65536, 'c');
    const iovec piece{chunk.data(), chunk.size()};
    while (d.try_send(p.near, {&piece, 1}) > 0) {
    }
    iovec more = piece;
    msghdr message{};
    message.msg_iov = &more;
    message.msg_iovlen = 1;
    recorder op(d);
    op.prepare_send(p.near, &message);
    d.submit(op);
    d.poll();
    d.retire(op);
    // Whether a little of it still went is the kernel's business.
    CHECK((op.result() == -ECANCELED || op.result() > 0));
    bench.close(p);
}

TEST_CASE("a cancel after the completion changes nothing") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    op.prepare_nop();
    CHECK(op.run() == 0);
    d.cancel(op);
    CHECK(op.seen.size() == 1);
    op.prepare_nop();
    d.submit(op);
    d.poll();
    turn(d);
    CHECK(op.seen.size() == 2);
}

TEST_CASE("a cancel of what has completed but is not delivered keeps the result") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    bench.send(p.near, "abc");
    recorder op(d);
    op.prepare_receive(p.far, false);
    d.submit(op);
    for (int i = 0; i < 1000 && d.undelivered(phase::native) == 0; ++i) {
        d.wait({.deadline_ns = d.now_ns() + 10'000'000});
    }
    REQUIRE(d.undelivered(phase::native) == 1);
    CHECK(op.in_flight());
    d.cancel(op);
    turn_until(d, [&] { return op.over(); });
    CHECK(op.result() == 3);
    CHECK(op.data == "abc");
    bench.close(p);
}

TEST_CASE("retire returns after the last completion and leaves others queued") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder other(d);
    other.prepare_nop();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.submit(other);
    d.poll();
    d.retire(op);
    CHECK(op.over());
    CHECK_FALSE(op.in_flight());
    CHECK(other.seen.empty());
    turn_until(d, [&] { return other.over(); });
    d.retire(op);  // of nothing: no effect
    CHECK(op.seen.size() == 1);
    bench.close(p);
}

TEST_CASE("retire delivers what had arrived, in order, before the last completion") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.poll();
    bench.send(p.near, "data");
    for (int i = 0; i < 1000 && d.undelivered(phase::native) == 0; ++i) {
        d.wait({.deadline_ns = d.now_ns() + 10'000'000});
    }
    d.retire(op);
    CHECK(op.data == "data");
    CHECK(op.over());
    bench.close(p);
}

TEST_CASE("retire delivers host operations whatever the phase") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d, true);
    op.prepare_poll(p.far, POLLIN);
    d.submit(op);
    d.poll();
    d.retire(op);
    CHECK(op.result() == -ECANCELED);
    bench.close(p);
}

TEST_CASE("the peer sees the end at once after retire and close") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder receive(d);
    receive.prepare_receive(p.far, true);
    recorder poll(d);
    poll.prepare_poll(p.far, POLLIN, true);
    d.submit(receive);
    d.submit(poll);
    d.poll();
    d.retire(receive);
    d.retire(poll);
    CHECK(d.close(p.far) == 0);
    char byte = 0;
    const iovec piece{&byte, 1};
    CHECK(d.try_receive(p.near, {&piece, 1}) == 0);
    CHECK(d.close(p.near) == 0);
}

TEST_CASE("a cancelled repeating receive is not armed again") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    auto op = std::make_unique<recorder>(d);
    op->prepare_receive(p.far, true);
    d.submit(*op);
    d.poll();
    d.cancel(*op);
    turn_until(d, [&] { return !op->in_flight(); });
    CHECK(op->state == op_state::done);
    op.reset();
    bench.close(p);
}

TEST_CASE("an operation may be submitted again, or freed, by its own last completion") {
    ON_EVERY_BODY(bench);
    struct again : operation {
        explicit again(driver& to) : io(to) {
            on_complete = [](operation& op, const completion&) noexcept {
                auto& self = static_cast<again&>(op);
                if (--self.left == 0) {
                    delete &self;
                    return;
                }
                self.prepare_nop();
                self.io.submit(self);
            };
        }
        driver& io;
        int left = 3;
    };
    auto* op = new again(d);
    op->prepare_nop();
    d.submit(*op);
    turn_until(d, [&] { return d.in_flight() == 0; });
}
