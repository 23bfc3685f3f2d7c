// runner: one scheduler over the driver body under test; runs a task to its end and then checks
// that nothing is left: operations, buffers, timers, descriptors.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "ringloop/ringloop.hpp"
#include "support/bodies.hpp"

namespace test {

namespace rl = ringloop;

struct runner {
    explicit runner(const rl::testing::body& body, const rl::driver_config& config = {})
        : home(rl::testing::make_body(body, config)) {}
    ~runner() {
        CHECK(home.io().in_flight() == 0);
        CHECK(home.io().leased_buffers() == 0);
        CHECK(home.leases_handed_out() == 0);
        CHECK(home.timers().size() == 0);
    }
    template <class T>
    T run(rl::task<T> work) {
        return rl::sync_wait(home, std::move(work));
    }
    rl::testing::ledger before;
    rl::scheduler home;
};

// What the await of `work` throws: its error's number; 0: nothing.
inline rl::task<int> error_of(rl::task<void> work) {
    try {
        co_await std::move(work);
    } catch (const rl::error& e) {
        co_return e.code().value();
    }
    co_return 0;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Echoes until the peer has ended.
inline rl::task<void> echo(rl::net::tcp_stream stream) {
    while (auto chunk = co_await stream.receive()) co_await stream.write_all(chunk.bytes());
}

inline rl::task<std::string> read_all(rl::net::tcp_stream& stream) {
    std::string all;
    while (auto chunk = co_await stream.receive()) all += chunk.text();
    co_return all;
}

// No co_await inside Catch's macros: they name their argument twice, which g++ 12 miscompiles.
inline rl::task<void> expect_text(rl::net::tcp_stream& stream, std::string_view expected) {
    const auto chunk = co_await stream.receive();
    CHECK(chunk.text() == expected);
}
inline rl::task<void> expect_end(rl::net::tcp_stream& stream) {
    const auto chunk = co_await stream.receive();
    CHECK_FALSE(chunk);
}

struct stream_pair {
    rl::net::tcp_stream near;
    rl::net::tcp_stream far;
};

inline rl::task<stream_pair> connected() {
    auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
    auto near = co_await rl::net::tcp_stream::connect(listener.local());
    auto far = co_await listener.accept();
    co_return stream_pair{std::move(near), std::move(far)};
}

// Content that shows a byte out of place.
inline std::string pattern(std::size_t size, unsigned seed = 1) {
    std::string text(size, '\0');
    for (char& c : text) {
        seed = seed * 1664525U + 1013904223U;
        c = static_cast<char>(seed >> 24);
    }
    return text;
}

}  // namespace test
