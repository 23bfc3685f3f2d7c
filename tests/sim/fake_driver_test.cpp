// The simulated driver itself, through nothing but the driver's contract: sockets, files, clock,
// cancel, faults, records, deadlock.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "ringloop/testing/fake_driver.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

struct probe : operation {
    probe() : operation(&probe::note) {}
    static void note(operation& op, const completion& c) noexcept {
        static_cast<probe&>(op).seen.push_back(c);
    }
    std::vector<completion> seen;
};

fake_config small() {
    fake_config config;
    config.driver.buffer_count = 4;
    config.driver.buffer_size = 64;
    config.kernel.socket_buffer = 256;
    return config;
}

void turn(fake_driver& d) {
    d.wait({.deadline_ns = d.now_ns() + 1'000'000'000});
    d.dispatch(phase::native);
}

void run_until_done(fake_driver& d, operation& op) {
    for (int i = 0; i < 1000 && op.in_flight(); ++i) turn(d);
    REQUIRE_FALSE(op.in_flight());
}

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

struct connection {
    int listener, client, server;
};

int make_listener(fake_driver& d, std::uint16_t port, int backlog = 8) {
    const int fd = d.make_socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in at = loopback(port);
    REQUIRE(d.bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(d.listen(fd, backlog) == 0);
    return fd;
}

connection connect_pair(fake_driver& d) {
    connection c{make_listener(d, 80), d.make_socket(AF_INET, SOCK_STREAM, 0), -1};
    const sockaddr_in to = loopback(80);
    probe connect, accept;
    connect.prepare_connect(c.client, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    accept.prepare_accept(c.listener, false);
    d.submit(accept);
    d.submit(connect);
    run_until_done(d, accept);
    run_until_done(d, connect);
    REQUIRE(connect.seen.at(0).result == 0);
    c.server = accept.seen.at(0).result;
    REQUIRE(c.server >= first_descriptor);
    return c;
}

ssize_t send_text(fake_driver& d, int fd, const std::string& text) {
    const iovec piece = {const_cast<char*>(text.data()), text.size()};
    return d.try_send(fd, {&piece, 1});
}

}  // namespace

TEST_CASE("a simulated connection carries bytes into a pool buffer") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    probe receive;
    receive.prepare_receive(c.server, true);
    d.submit(receive);
    turn(d);
    CHECK(receive.seen.empty());
    CHECK(send_text(d, c.client, "hello") == 5);
    turn(d);
    REQUIRE(receive.seen.size() == 1);
    const completion got = receive.seen[0];
    CHECK(got.more);
    CHECK(std::string(reinterpret_cast<char*>(d.buffer(got.buffer)), 5) == "hello");
    CHECK(d.leased_buffers() == 1);
    d.release_buffer(got.buffer);
    CHECK(d.close(c.client) == 0);
    run_until_done(d, receive);
    CHECK(receive.seen.back().result == 0);
    CHECK(d.leased_buffers() == 0);
    CHECK(d.violations().empty());
}

TEST_CASE("a connect without a listener is refused, and waits while the backlog is full") {
    fake_driver d(small());
    const sockaddr_in to = loopback(81);
    const auto* address = reinterpret_cast<const sockaddr*>(&to);
    const int refused = d.make_socket(AF_INET, SOCK_STREAM, 0);
    probe first;
    first.prepare_connect(refused, address, sizeof to);
    d.submit(first);
    run_until_done(d, first);
    CHECK(first.seen.at(0).result == -ECONNREFUSED);
    const int listener = make_listener(d, 81, 1);
    probe inside, waiting, accept;
    inside.prepare_connect(refused, address, sizeof to);
    waiting.prepare_connect(d.make_socket(AF_INET, SOCK_STREAM, 0), address, sizeof to);
    d.submit(inside);
    d.submit(waiting);
    run_until_done(d, inside);
    turn(d);
    CHECK(waiting.in_flight());
    accept.prepare_accept(listener, false);
    d.submit(accept);
    run_until_done(d, waiting);
    CHECK(waiting.seen.at(0).result == 0);
    run_until_done(d, accept);
}

TEST_CASE("a send to a full socket waits until the peer has read") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    CHECK(send_text(d, c.client, std::string(300, 'x')) == 256);
    std::string more = "tail";
    iovec piece = {more.data(), more.size()};
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    probe send;
    send.prepare_send(c.client, &message);
    d.submit(send);
    turn(d);
    CHECK(send.in_flight());
    std::vector<char> room(256);
    const iovec into = {room.data(), room.size()};
    CHECK(d.try_receive(c.server, {&into, 1}) == 256);
    run_until_done(d, send);
    CHECK(send.seen.at(0).result == 4);
}

TEST_CASE("closing with unread bytes resets the peer, after what it has still to read") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    send_text(d, c.client, "unread");
    send_text(d, c.server, "last words");
    d.close(c.server);
    char room[32];
    const iovec into = {room, sizeof room};
    CHECK(d.try_receive(c.client, {&into, 1}) == 10);
    CHECK(d.try_receive(c.client, {&into, 1}) == -ECONNRESET);
    CHECK(d.try_receive(c.client, {&into, 1}) == 0);
    CHECK(send_text(d, c.client, "x") == -EPIPE);
}

TEST_CASE("an operation in flight keeps a closed descriptor open until it is cancelled") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    probe receive, peer;
    receive.prepare_receive(c.server, false);
    peer.prepare_receive(c.client, false);
    d.submit(receive);
    d.submit(peer);
    turn(d);
    d.close(c.server);
    turn(d);
    CHECK(peer.in_flight());
    d.retire(receive);
    CHECK(receive.seen.at(0).result == -ECANCELED);
    run_until_done(d, peer);
    CHECK(peer.seen.at(0).result == 0);
}

TEST_CASE("files are written, read back at an offset and described") {
    fake_driver d(small());
    d.kernel().add_directory("/tmp");
    probe op;
    const auto run = [&] {
        d.submit(op);
        run_until_done(d, op);
        return op.seen.back().result;
    };
    op.prepare_open(AT_FDCWD, "/tmp/a", O_RDWR | O_CREAT, 0600);
    const int fd = run();
    REQUIRE(fd >= first_descriptor);
    op.prepare_write(fd, "0123456789", 10, -1);
    CHECK(run() == 10);
    char room[4];
    op.prepare_read(fd, room, sizeof room, 8);
    CHECK(run() == 2);
    CHECK(std::string(room, 2) == "89");
    struct statx facts = {};
    op.prepare_statx(AT_FDCWD, "tmp/a", 0, STATX_SIZE, &facts);
    CHECK(run() == 0);
    CHECK(facts.stx_size == 10);
    op.prepare_open(AT_FDCWD, "/tmp/none", O_RDONLY, 0);
    CHECK(run() == -ENOENT);
    op.prepare_close(fd);
    CHECK(run() == 0);
    CHECK(d.kernel().open_descriptors() == 0);
}

TEST_CASE("the virtual clock jumps to the deadline") {
    fake_driver d(small());
    const std::int64_t deadline = d.now_ns() + 3'600'000'000'000;
    CHECK(d.wait({.deadline_ns = deadline}) == wait_result::timed_out);
    CHECK(d.now_ns() == deadline);
}

TEST_CASE("a planned fault hits its step and no other") {
    fake_config config = small();
    fake_driver clean(config);
    connect_pair(clean);
    const auto steps = clean.record(step_domain::work);
    std::size_t accept = 0;
    while (steps.at(accept).kind != step_kind::accept) ++accept;
    config.plan = {parse_fault("work:" + std::to_string(accept) + ":error:24")};
    fake_driver d(config);
    const int listener = make_listener(d, 80);
    const sockaddr_in to = loopback(80);
    probe op, connect;
    op.prepare_accept(listener, false);
    connect.prepare_connect(d.make_socket(AF_INET, SOCK_STREAM, 0),
                            reinterpret_cast<const sockaddr*>(&to), sizeof to);
    d.submit(op);
    d.submit(connect);
    run_until_done(d, op);
    CHECK(op.seen.at(0).result == -EMFILE);
    run_until_done(d, connect);
    d.submit(op);
    run_until_done(d, op);
    CHECK(op.seen.at(1).result >= first_descriptor);
    CHECK(d.faults_injected() == 1);
}

TEST_CASE("equal seeds make equal runs, different ones do not") {
    const auto run = [](std::uint64_t seed) {
        fake_config config = small();
        config.random = {.seed = seed, .latencies = 500, .disorder = 500};
        fake_driver d(config);
        const connection c = connect_pair(d);
        probe a, b;
        a.prepare_receive(c.server, true);
        d.submit(a);
        for (int i = 0; i < 20; ++i) {
            send_text(d, c.client, "abc");
            turn(d);
            while (!a.seen.empty()) {
                if (a.seen.back().buffer != no_buffer) d.release_buffer(a.seen.back().buffer);
                a.seen.pop_back();
            }
        }
        d.retire(a);
        for (const completion& last : a.seen)
            if (last.buffer != no_buffer) d.release_buffer(last.buffer);
        std::string text;
        for (const step_record& step : d.record()) text += to_text(step) + "\n";
        return text;
    };
    CHECK(run(1) == run(1));
    CHECK(run(1) != run(2));
}

TEST_CASE("a deadlock is reported instead of hanging") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    probe receive;
    char byte;
    receive.prepare_receive_into(c.server, &byte, 1);
    d.submit(receive);
    std::string said;
    d.on_failure = [&](const std::string& report) {
        said = report;
        d.cancel(receive);
    };
    CHECK(d.wait({}) == wait_result::ready);
    CHECK(said.find("deadlock") != std::string::npos);
    CHECK(said.find("receive_into") != std::string::npos);
    d.dispatch(phase::native);
    CHECK(receive.seen.at(0).result == -ECANCELED);
}

TEST_CASE("a buffer given back twice or written to after is noticed") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    probe receive;
    const auto take = [&] {
        send_text(d, c.client, "abc");
        receive.prepare_receive(c.server, false);
        d.submit(receive);
        run_until_done(d, receive);
        return receive.seen.back().buffer;
    };
    const buffer_id id = take();
    std::byte* memory = d.buffer(id);
    d.release_buffer(id);
    CHECK(d.violations().empty());
    memory[3] = std::byte{1};
    d.release_buffer(take());
    REQUIRE(d.violations().size() == 1);
    CHECK(d.violations()[0].find("while it was free") != std::string::npos);
}

TEST_CASE("a cancel that loses the race leaves the result, one that wins leaves the bytes") {
    fake_config config = small();
    fake_driver clean(small());
    connect_pair(clean);
    const std::uint64_t step = clean.record(step_domain::work).size() + 1;  // after the try_send
    for (const fault_kind kind : {fault_kind::late, fault_kind::slow}) {
        config.plan = {{step_domain::work, step, {kind, 1'000'000}}};
        fake_driver d(config);
        const connection c = connect_pair(d);
        send_text(d, c.client, "abc");
        char room[8];
        probe receive;
        receive.prepare_receive_into(c.server, room, sizeof room);
        d.submit(receive);
        d.flush();
        CHECK(receive.seen.empty());
        d.retire(receive);
        CHECK(receive.seen.at(0).result == (kind == fault_kind::late ? 3 : -ECANCELED));
        const iovec into = {room, sizeof room};
        CHECK(d.try_receive(c.server, {&into, 1}) == (kind == fault_kind::late ? -EAGAIN : 3));
    }
}

TEST_CASE("a starved receive is armed again when a buffer is free") {
    fake_driver d(small());
    const connection c = connect_pair(d);
    probe receive;
    receive.prepare_receive(c.server, true);
    d.submit(receive);
    send_text(d, c.client, std::string(256, 'x'));
    send_text(d, c.client, "y");
    turn(d);
    CHECK(d.leased_buffers() == 4);
    CHECK(send_text(d, c.client, "tail") == 4);
    turn(d);
    CHECK(receive.seen.size() == 4);
    CHECK(d.counters().starved == 1);
    for (const completion& got : receive.seen) d.release_buffer(got.buffer);
    receive.seen.clear();
    turn(d);
    turn(d);
    REQUIRE(receive.seen.size() == 1);
    CHECK(receive.seen[0].result == 4);
    d.release_buffer(receive.seen[0].buffer);
    d.retire(receive);
}

TEST_CASE("submissions that were not taken stay queued and are handed over later") {
    fake_config config = small();
    config.plan = {{step_domain::enter, 0, {fault_kind::limit, 1}}};
    fake_driver d(config);
    probe a, b;
    a.prepare_nop();
    b.prepare_nop();
    d.submit(a);
    d.submit(b);
    d.poll();
    d.dispatch(phase::native);
    CHECK_FALSE(a.in_flight());
    CHECK(b.in_flight());
    run_until_done(d, b);
}
