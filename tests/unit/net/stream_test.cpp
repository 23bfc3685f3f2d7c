// Streams and listeners on every driver body: contents, ends, errors, closing.
#include <sys/socket.h>

#include <array>
#include <thread>
#include <vector>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

rl::task<void> send_and_end(rl::net::tcp_stream& stream, const std::string& text) {
    co_await stream.write_all(text);
    stream.shutdown(rl::net::direction::send);
}

rl::task<std::string> echoed(rl::net::endpoint to, std::string sent) {
    auto stream = co_await rl::net::tcp_stream::connect(to);
    std::string got;
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn(send_and_end(stream, sent));
        got = co_await read_all(stream);
    });
    co_return got;
}

void reset(rl::net::tcp_stream& stream, rl::scheduler& home) {
    const linger now{1, 0};
    REQUIRE(home.io().set_option(stream.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now) ==
            0);
    stream.close();
}

}  // namespace

TEST_CASE("an echo server gives every byte back, in order", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::size_t size = GENERATE(1U, 1024U, 300'000U);
    const std::string sent = pattern(size);
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        const auto at = listener.local();
        const auto serve = [&]() -> rl::task<void> { co_await echo(co_await listener.accept()); };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(serve());
            const std::string got = co_await echoed(at, sent);
            CHECK((got == sent));
        });
    };
    r.run(scenario());
}

TEST_CASE("pieces of memory are sent in their order, however many and large they are", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::size_t size = GENERATE(1U, 100U, 3'000U);  // 3,000 are more than the kernel takes
    const std::string sent = pattern(300'000);
    const auto send = [&](rl::net::tcp_stream& stream) -> rl::task<void> {
        const auto bytes = std::as_bytes(std::span(sent));
        std::vector<std::span<const std::byte>> pieces(3);  // empty ones are nothing
        for (std::size_t at = 0; at < sent.size(); at += sent.size() / size)
            pieces.push_back(bytes.subspan(at, sent.size() / size));
        co_await stream.write_all(pieces);
        stream.shutdown(rl::net::direction::send);
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        std::string got;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(send(pair.near));
            got = co_await read_all(pair.far);
        });
        CHECK((got == sent));
    };
    r.run(scenario());
}

TEST_CASE("one writer at a time, also of pieces", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string large = pattern(32'000'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        const std::array<std::span<const std::byte>, 1> pieces{std::as_bytes(std::span(large))};
        int refused = 0;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(pair.near.write_all(pieces));
            co_await rl::yield();
            try {
                co_await pair.near.write_all("x");
            } catch (const std::logic_error&) {
                ++refused;
            }
            try {
                co_await pair.near.write_all(pieces);
            } catch (const std::logic_error&) {
                ++refused;
            }
            group.cancel();
        });
        CHECK(refused == 2);
    };
    r.run(scenario());
}

TEST_CASE("read_some takes what is there into the caller's memory, alone and after receive()",
          "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        std::array<std::byte, 4> small{};
        const std::size_t none = co_await pair.far.read_some({});
        CHECK(none == 0);
        co_await pair.near.write_all("abcdefgh");
        std::string got;
        while (got.size() < 8)
            got += text_of(std::span(small).first(co_await pair.far.read_some(small)));
        CHECK(got == "abcdefgh");
        co_await pair.near.write_all("x");
        co_await expect_text(pair.far, "x");
        co_await pair.near.write_all("123456");
        got.clear();
        while (got.size() < 6)
            got += text_of(std::span(small).first(co_await pair.far.read_some(small)));
        CHECK(got == "123456");
        pair.near.close();
        const std::size_t ended = co_await pair.far.read_some(small);
        CHECK(ended == 0);
        co_await expect_end(pair.far);
    };
    r.run(scenario());
}

TEST_CASE("the peer sees the end at once when a stream with an armed receive is closed", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        co_await pair.near.write_all("x");
        co_await expect_text(pair.far, "x");  // stays armed
        pair.far.close();
        co_await expect_end(pair.near);
    };
    r.run(scenario());
}

TEST_CASE("a reset by the peer is an error of the waiting receive", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        const auto wait = [&]() -> rl::task<void> {
            try {
                auto chunk = co_await pair.far.receive();
                FAIL("no error");
            } catch (const rl::error& e) {
                CHECK(e.code() == std::errc::connection_reset);
            }
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(wait());
            co_await rl::yield();
            reset(pair.near, r.home);
        });
    };
    r.run(scenario());
}

TEST_CASE("a client that goes away in the middle of a large send ends the write with an error",
          "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        const std::string large = pattern(32'000'000);
        const auto write = [&]() -> rl::task<void> {
            bool failed = false;
            try {
                co_await pair.far.write_all(large);
            } catch (const rl::error&) {
                failed = true;
            }
            CHECK(failed);
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(write());
            auto first = co_await pair.near.receive();
            CHECK(first.size() > 0);
            first.release();
            pair.near.close();
        });
    };
    r.run(scenario());
}

TEST_CASE("a server that closes right after accept shows its client the end of the stream",
          "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        for (int i = 0; i < 20; ++i) {
            auto near = co_await rl::net::tcp_stream::connect(listener.local());
            { auto far = co_await listener.accept(); }
            co_await expect_end(near);
        }
    };
    r.run(scenario());
}

TEST_CASE("connecting to a port where nobody listens is refused", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        const auto at = listener.local();
        listener.close();
        try {
            auto stream = co_await rl::net::tcp_stream::connect(at);
            FAIL("connected");
        } catch (const rl::error& e) {
            CHECK(e.code() == std::errc::connection_refused);
        }
    };
    r.run(scenario());
}

TEST_CASE("connections that nobody took are closed with their listener", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        auto a = co_await rl::net::tcp_stream::connect(listener.local());
        auto b = co_await rl::net::tcp_stream::connect(listener.local());
        { auto first = co_await listener.accept(); }
        co_await rl::yield();
        listener.close();
        co_await expect_end(a);
        try {
            co_await expect_end(b);
        } catch (const rl::error& e) {
            CHECK(e.code() == std::errc::connection_reset);  // never accepted by the kernel
        }
    };
    r.run(scenario());
}

TEST_CASE("a second reader or writer at the same time is refused", "[net]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        const auto read = [&]() -> rl::task<void> {
            auto chunk = co_await pair.far.receive();
            CHECK(chunk.text() == "x");
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(read());
            co_await rl::yield();
            bool refused = false;
            try {
                auto chunk = co_await pair.far.receive();
            } catch (const std::logic_error&) {
                refused = true;
            }
            CHECK(refused);
            co_await pair.near.write_all("x");
        });
        auto taken = std::move(pair.far);
        CHECK_THROWS_AS(pair.far.receive(), std::logic_error);  // NOLINT: moved from
    };
    r.run(scenario());
}

TEST_CASE("a thousand connections share four receive buffers and every stream is complete",
          "[net][load]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    rl::driver_config config;
    config.buffer_count = 4;
    config.buffer_size = 4096;
    runner r(body, config);
    const int connections = body.kind == rl::backend::fake ? 100 : 1000;
    int complete = 0;
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        const auto at = listener.local();
        const auto client = [&](unsigned seed) -> rl::task<void> {
            const std::string sent = pattern(10'000, seed);
            if (co_await echoed(at, sent) == sent) ++complete;
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int i = 0; i < connections; ++i) group.spawn(client(static_cast<unsigned>(i)));
            for (int i = 0; i < connections; ++i) group.spawn(echo(co_await listener.accept()));
        });
    };
    r.run(scenario());
    CHECK(complete == connections);
}

TEST_CASE("a pinned driver carries the same traffic and refuses another thread", "[net][pinned]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    rl::driver_config config;
    config.pinned = true;
    config.buffer_count = 4;
    runner r(body, config);
    int complete = 0;
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        const auto at = listener.local();
        const auto client = [&](unsigned seed) -> rl::task<void> {
            const std::string sent = pattern(200'000, seed);
            if (co_await echoed(at, sent) == sent) ++complete;
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (unsigned i = 0; i < 50; ++i) group.spawn(client(i));
            for (int i = 0; i < 50; ++i) group.spawn(echo(co_await listener.accept()));
        });
    };
    r.run(scenario());
    CHECK(complete == 50);
    bool moved = true;
    std::thread([&] { moved = r.home.io().adopt_thread(); }).join();
    CHECK(moved == (body.kind == rl::backend::epoll));
}
