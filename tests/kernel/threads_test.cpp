// Threads: waking a sleeper from others, moving a driver to another thread, the first one gone.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

#define ON_REAL_BODIES(bench)                                \
    const body chosen = GENERATE(from_range(real_bodies())); \
    CAPTURE(chosen);                                         \
    workbench bench(chosen);                                 \
    [[maybe_unused]] driver& d = *bench.d

namespace {

struct mailbox {
    std::atomic<std::uint64_t> posted{0};
    std::uint64_t taken = 0;
    static bool has_work(void* context) {
        auto& self = *static_cast<mailbox*>(context);
        return self.posted.load(std::memory_order_acquire) != self.taken;
    }
};

}  // namespace

TEST_CASE("no wake-up is lost under stress, and each sleep is written to at most once") {
    ON_REAL_BODIES(bench);
    constexpr int producers = 3;
    constexpr std::uint64_t each = 20'000;
    mailbox box;
    std::vector<std::thread> threads;
    for (int i = 0; i < producers; ++i) {
        threads.emplace_back([&] {
            for (std::uint64_t n = 0; n < each; ++n) {
                box.posted.fetch_add(1, std::memory_order_release);
                d.wake();
                if (n % 64 == 0) std::this_thread::yield();
            }
        });
    }
    bool lost = false;
    while (box.taken != producers * each && !lost) {
        const std::int64_t deadline_ns = d.now_ns() + 60'000'000'000;
        const wait_result result =
            d.wait({.deadline_ns = deadline_ns, .has_work = &mailbox::has_work, .context = &box});
        box.taken = box.posted.load(std::memory_order_acquire);
        lost = result == wait_result::timed_out;
    }
    for (std::thread& t : threads) t.join();
    CHECK_FALSE(lost);
    CHECK(d.counters().wake_writes <= d.counters().sleeps + 1);
}

TEST_CASE("a parked guest's descriptor becomes readable by a wake") {
    ON_REAL_BODIES(bench);
    d.poll();
    REQUIRE(d.park({}));
    std::thread other([&] { d.wake(); });
    pollfd watch{d.pollable_fd(), POLLIN, 0};
    int ready = 0;
    for (int i = 0; i < 100 && ready != 1; ++i) ready = ::poll(&watch, 1, 1000);
    CHECK(ready == 1);
    other.join();
    d.unpark();
    d.poll();
    d.dispatch(phase::native);
    CHECK(d.counters().wake_writes == 1);
}

TEST_CASE("a wait that spins finds a completion and a post without sleeping") {
    ON_REAL_BODIES(bench);
    mailbox box;
    box.posted = 1;
    const std::uint64_t sleeps = d.counters().sleeps;
    CHECK(d.wait({.spin_ns = 1'000'000'000, .has_work = &mailbox::has_work, .context = &box}) ==
          wait_result::ready);
    recorder op(d);
    op.prepare_nop();
    d.submit(op);
    CHECK(d.wait({.spin_ns = 1'000'000'000}) == wait_result::ready);
    d.dispatch(phase::native);
    CHECK(op.over());
    CHECK(d.counters().sleeps == sleeps);
}

TEST_CASE("a driver made in one thread runs in another, with a listener bound before") {
    ON_REAL_BODIES(bench);
    const bool first_thread_ends = GENERATE(false, true);
    CAPTURE(first_thread_ends);
    workbench::listening l{};
    recorder accept(d);
    recorder receive(d);
    workbench::pair p{};
    const auto set_up = [&] {
        REQUIRE(d.adopt_thread());
        l = bench.listen();
        accept.prepare_accept(l.fd, true);
        p = bench.connect_pair();
        receive.prepare_receive(p.far, true);
        d.submit(accept);
        d.submit(receive);
        d.poll();
        d.dispatch(phase::native);
    };
    if (first_thread_ends) {
        std::thread(set_up).join();
    } else {
        set_up();
    }
    bench.send(p.near, "before");
    std::thread second([&] {
        REQUIRE(d.adopt_thread());
        turn_until(d, [&] { return receive.data == "before"; });
        bench.send(p.near, "after");
        turn_until(d, [&] { return receive.data == "beforeafter"; });
        recorder connect(d);
        const int fd = d.make_socket(AF_INET, SOCK_STREAM, 0);
        connect.prepare_connect(fd, reinterpret_cast<const sockaddr*>(&l.address),
                                sizeof l.address);
        REQUIRE(connect.run() == 0);
        turn_until(d, [&] { return !accept.seen.empty(); });
        CHECK(accept.seen[0].more);
        CHECK(d.close(accept.seen[0].result) == 0);
        CHECK(d.close(fd) == 0);
    });
    second.join();
    REQUIRE(d.adopt_thread());
    std::thread waker([&] { d.wake(); });
    waker.join();
    d.retire(accept);
    d.retire(receive);
    CHECK(accept.result() == -ECANCELED);
    CHECK(receive.result() == -ECANCELED);
    bench.close(p);
    CHECK(d.close(l.fd) == 0);
}

TEST_CASE("a wake reaches a driver that was moved") {
    ON_REAL_BODIES(bench);
    d.poll();
    std::thread second([&] {
        REQUIRE(d.adopt_thread());
        mailbox box;
        std::thread waker([&] {
            box.posted.fetch_add(1, std::memory_order_release);
            d.wake();
        });
        while (!mailbox::has_work(&box)) {
            REQUIRE(d.wait({.deadline_ns = d.now_ns() + 60'000'000'000,
                            .has_work = &mailbox::has_work,
                            .context = &box}) == wait_result::ready);
        }
        waker.join();
    });
    second.join();
    REQUIRE(d.adopt_thread());
}

TEST_CASE("a ring with a send in flight refuses to move and changes nothing") {
    if (!ring_works_here()) return;
    workbench bench({backend::uring});
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    std::string chunk(65536, 'c');
    const iovec piece{chunk.data(), chunk.size()};
    while (d.try_send(p.near, {&piece, 1}) > 0) {
    }
    iovec more = piece;
    msghdr message{};
    message.msg_iov = &more;
    message.msg_iovlen = 1;
    recorder send(d);
    send.prepare_send(p.near, &message);
    d.submit(send);
    d.poll();
    std::thread([&] { CHECK_FALSE(d.adopt_thread()); }).join();
    CHECK(send.in_flight());
    d.retire(send);
    bench.close(p);
}
