// Socket operations, on every body: what completes, with what, in which order.
#include <poll.h>

#include <cerrno>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

TEST_CASE("a no-op completes with 0 at the next turn and not before") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    op.prepare_nop();
    d.submit(op);
    CHECK(op.seen.empty());
    CHECK(d.in_flight() == 1);
    turn_until(d, [&] { return op.over(); });
    CHECK(op.result() == 0);
    CHECK(op.state == op_state::done);
}

TEST_CASE("accept and connect meet") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    bench.send(p.near, "through");
    CHECK(bench.take(p.far, 7) == "through");
    bench.close(p);
}

TEST_CASE("a connect that nobody awaits is refused") {
    ON_EVERY_BODY(bench);
    const auto l = bench.listen();
    REQUIRE(d.close(l.fd) == 0);
    const int fd = d.make_socket(AF_INET, SOCK_STREAM, 0);
    recorder op(d);
    op.prepare_connect(fd, reinterpret_cast<const sockaddr*>(&l.address), sizeof l.address);
    CHECK(op.run() == -ECONNREFUSED);
    CHECK(d.close(fd) == 0);
}

TEST_CASE("a repeating accept delivers each connection and stays armed") {
    ON_EVERY_BODY(bench);
    const auto l = bench.listen();
    recorder accept(d);
    accept.prepare_accept(l.fd, true);
    d.submit(accept);
    std::vector<int> clients;
    for (int i = 0; i < 5; ++i) {
        clients.push_back(d.make_socket(AF_INET, SOCK_STREAM, 0));
        recorder connect(d);
        connect.prepare_connect(clients.back(), reinterpret_cast<const sockaddr*>(&l.address),
                                sizeof l.address);
        REQUIRE(connect.run() == 0);
    }
    turn_until(d, [&] { return accept.seen.size() == 5; });
    for (const completion& c : accept.seen) {
        CHECK(c.more);
        CHECK(d.close(c.result) == 0);
    }
    d.retire(accept);
    CHECK(accept.result() == -ECANCELED);
    for (const int fd : clients) CHECK(d.close(fd) == 0);
    CHECK(d.close(l.fd) == 0);
}

TEST_CASE("a receive brings a buffer of the pool, and the end of the stream none") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.keep = true;
    op.prepare_receive(p.far, false);
    d.submit(op);
    bench.send(p.near, "hello");
    turn_until(d, [&] { return op.over(); });
    CHECK(op.result() == 5);
    CHECK(op.data == "hello");
    REQUIRE(op.seen[0].buffer != no_buffer);
    CHECK(d.leased_buffers() == 1);
    d.release_buffer(op.seen[0].buffer);
    CHECK(d.close(p.near) == 0);
    op.prepare_receive(p.far, false);
    CHECK(op.run() == 0);
    CHECK(op.seen[0].buffer == no_buffer);
    CHECK(d.close(p.far) == 0);
}

TEST_CASE("a repeating receive delivers in order and ends with the stream") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    std::string sent;
    for (int i = 0; i < 50; ++i) {
        const std::string word = std::to_string(i) + " ";
        bench.send(p.near, word);
        sent += word;
        if (i % 3 == 0) turn(d);
    }
    CHECK(d.close(p.near) == 0);
    turn_until(d, [&] { return op.over(); });
    CHECK(op.data == sent);
    CHECK(op.result() == 0);
    for (std::size_t i = 0; i + 1 < op.seen.size(); ++i) CHECK(op.seen[i].more);
    CHECK(d.close(p.far) == 0);
}

TEST_CASE("receive_into fills the owner's memory and reports the end as 0") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    bench.send(p.near, "abcdef");
    CHECK(bench.take(p.far, 4) == "abcd");
    CHECK(bench.take(p.far, 2) == "ef");
    CHECK(d.close(p.near) == 0);
    CHECK(bench.take(p.far, 1).empty());
    CHECK(d.close(p.far) == 0);
}

TEST_CASE("two receives on one socket take their turns") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    char first_data[1];
    char second_data[1];
    recorder first(d);
    recorder second(d);
    first.prepare_receive_into(p.far, first_data, 1);
    second.prepare_receive_into(p.far, second_data, 1);
    d.submit(first);
    d.submit(second);
    d.poll();
    bench.send(p.near, "x");
    turn_until(d, [&] { return first.over() || second.over(); });
    bench.send(p.near, "y");
    turn_until(d, [&] { return first.over() && second.over(); });
    CHECK(first.result() == 1);
    CHECK(second.result() == 1);
    CHECK(first_data[0] + second_data[0] == 'x' + 'y');
    bench.close(p);
}

TEST_CASE("a gathered send is one stream of bytes, however small the socket's buffer") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    std::string big(300'000, 'b');
    for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>('a' + i % 23);
    recorder receive(d);
    receive.prepare_receive(p.far, true);
    d.submit(receive);
    std::size_t sent = 0;
    recorder op(d);
    while (sent < big.size()) {
        const std::size_t half = (big.size() - sent) / 2;
        iovec pieces[2] = {{big.data() + sent, half},
                           {big.data() + sent + half, big.size() - sent - half}};
        msghdr message{};
        message.msg_iov = pieces;
        message.msg_iovlen = 2;
        op.prepare_send(p.near, &message);
        const std::int32_t result = op.run();
        REQUIRE(result > 0);
        sent += static_cast<std::size_t>(result);
    }
    turn_until(d, [&] { return receive.data.size() >= big.size(); });
    CHECK((receive.data == big));
    d.retire(receive);
    bench.close(p);
}

TEST_CASE("a send to a peer that is gone fails and raises no signal") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    CHECK(d.close(p.far) == 0);
    char byte = 'x';
    iovec piece{&byte, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    recorder op(d);
    std::int32_t result = 0;
    for (int i = 0; i < 100 && result >= 0; ++i) {
        op.prepare_send(p.near, &message);
        result = op.run();
    }
    CHECK((result == -EPIPE || result == -ECONNRESET));
    CHECK(d.close(p.near) == 0);
}

TEST_CASE("a poll tells what is ready now, or waits for it") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_poll(p.far, POLLOUT);
    CHECK(op.run() == POLLOUT);
    op.seen.clear();
    op.prepare_poll(p.far, POLLIN);
    d.submit(op);
    d.poll();
    d.dispatch(phase::native);
    CHECK(op.seen.empty());
    bench.send(p.near, "!");
    turn_until(d, [&] { return op.over(); });
    CHECK((op.result() & POLLIN) != 0);
    CHECK(bench.take(p.far, 1) == "!");
    bench.close(p);
}

TEST_CASE("a repeating poll tells of each arrival") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_poll(p.far, POLLIN, true);
    d.submit(op);
    for (std::size_t i = 0; i < 3; ++i) {
        bench.send(p.near, "!");
        turn_until(d, [&] { return op.seen.size() > i; });
        CHECK(op.seen.back().more);
        CHECK(bench.take(p.far, 1) == "!");
    }
    d.retire(op);
    CHECK(op.result() == -ECANCELED);
    bench.close(p);
}

TEST_CASE("operations on no descriptor end with EBADF") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    char byte = 0;
    op.prepare_receive(-1, true);
    CHECK(op.run() == -EBADF);
    op.prepare_receive_into(4095, &byte, 1);
    CHECK(op.run() == -EBADF);
    op.prepare_accept(4095, true);
    CHECK(op.run() == -EBADF);
    op.prepare_poll(4095, POLLIN);
    CHECK(op.run() == -EBADF);
    op.prepare_close(4095);
    CHECK(op.run() == -EBADF);
}

TEST_CASE("the end of a stream gives its buffer back") {
    ON_EVERY_BODY(bench, .buffer_count = 2, .buffer_size = 256);
    for (int i = 0; i < 20; ++i) {
        const auto p = bench.connect_pair();
        recorder op(d);
        op.prepare_receive(p.far, i % 2 == 0);
        d.submit(op);
        d.poll();
        CHECK(d.close(p.near) == 0);
        turn_until(d, [&] { return op.over(); });
        CHECK(op.result() == 0);
        CHECK(d.close(p.far) == 0);
    }
    CHECK(d.leased_buffers() == 0);
}

TEST_CASE("the immediate verbs answer at once") {
    ON_EVERY_BODY(bench);
    const auto p = bench.connect_pair();
    char data[8];
    const iovec piece{data, sizeof data};
    CHECK(d.try_receive(p.far, {&piece, 1}) == -EAGAIN);
    bench.send(p.near, "now");
    turn_until(d, [&] {
        return d.try_receive(p.far, {&piece, 1}) == 3 || (turn(d, 1'000'000), false);
    });
    CHECK(std::string_view(data, 3) == "now");
    bench.close(p);
}
