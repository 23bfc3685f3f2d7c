// The twins of stream members that tell failures by std::error_code.
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

const std::error_code stale = std::make_error_code(std::errc::io_error);

// Closes so that the other side gets a reset: there is something unread.
rl::task<void> reset(rl::net::tcp_stream& near, rl::net::tcp_stream far) {
    co_await near.write_all("never read");
    co_await rl::sleep_for(10ms);
    far.close();
}

}  // namespace

TEST_CASE("a refused connection is an error_code and an empty stream", "[error_code]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::error_code refused, fine = stale;
    bool empty = false, full = false;
    r.run([&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind(rl::net::endpoint("127.0.0.1", 0));
        const rl::net::endpoint at = listener.local();
        const auto good = co_await rl::net::tcp_stream::connect(at, fine);
        full = static_cast<bool>(good);
        listener.close();
        const auto bad = co_await rl::net::tcp_stream::connect(at, refused);
        empty = !bad;
    }());
    CHECK(refused == std::errc::connection_refused);
    CHECK(empty);
    CHECK_FALSE(fine);
    CHECK(full);
}

TEST_CASE("success clears the error_code, and the end of a stream is none", "[error_code]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::error_code wrote = stale, wrote_some = stale, read = stale, received = stale, end = stale;
    std::size_t sent = 0, part = 0, got = 0, left = 0;
    bool ended = false;
    r.run([&]() -> rl::task<void> {
        auto pair = co_await connected();
        sent = co_await pair.near.write_all("hello", wrote);
        part = co_await pair.near.write_some(std::as_bytes(std::span("x")), wrote_some);
        std::array<std::byte, 5> into{};
        got = co_await pair.far.read_some(into, read);
        const auto chunk = co_await pair.far.receive(received);
        left = chunk.size();
        pair.near.close();
        const auto last = co_await pair.far.receive(end);
        ended = !last;
    }());
    for (const std::error_code& code : {wrote, wrote_some, read, received, end}) CHECK_FALSE(code);
    CHECK(sent == 5);
    CHECK(got == 5);
    CHECK(left == part);
    CHECK(ended);
}

TEST_CASE("a reset is an error_code for readers and writers", "[error_code]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::error_code read, received, wrote;
    std::size_t got = 1, sent = 1;
    bool empty = false;
    r.run([&]() -> rl::task<void> {
        auto one = co_await connected();
        co_await reset(one.near, std::move(one.far));
        std::array<std::byte, 5> into{};
        got = co_await one.near.read_some(into, read);
        sent = co_await one.near.write_all("more", wrote);
        auto two = co_await connected();
        co_await reset(two.near, std::move(two.far));
        const auto chunk = co_await two.near.receive(received);
        empty = !chunk;
    }());
    CHECK(read == std::errc::connection_reset);
    CHECK(received == std::errc::connection_reset);
    CHECK(wrote == std::errc::broken_pipe);
    CHECK(got == 0);
    CHECK(sent == 0);
    CHECK(empty);
}

TEST_CASE("a write of pieces tells its error_code what failed", "[error_code]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::error_code fine = stale, failed;
    r.run([&]() -> rl::task<void> {
        auto pair = co_await connected();
        const auto bytes = std::as_bytes(std::span("hello"));
        const std::array<std::span<const std::byte>, 2> pieces{bytes, bytes};
        co_await pair.near.write_all(pieces, fine);
        pair.near.shutdown(rl::net::direction::send);
        co_await pair.near.write_all(pieces, failed);
    }());
    CHECK_FALSE(fine);
    CHECK(failed == std::errc::broken_pipe);
}

TEST_CASE("a stop throws past an error_code", "[error_code]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    int stopped = 0;
    r.run([&]() -> rl::task<void> {
        auto pair = co_await connected();
        std::error_code code;
        auto receive = [&]() -> rl::task<void> {
            static_cast<void>(co_await pair.near.receive(code));
        };
        auto read = [&]() -> rl::task<void> {
            std::array<std::byte, 5> into{};
            static_cast<void>(co_await pair.near.read_some(into, code));
        };
        try {
            co_await rl::with_timeout(5ms, read());
        } catch (const rl::timed_out&) {
            ++stopped;
        }
        try {
            co_await rl::with_timeout(5ms, receive());
        } catch (const rl::timed_out&) {
            ++stopped;
        }
    }());
    CHECK(stopped == 2);
}
