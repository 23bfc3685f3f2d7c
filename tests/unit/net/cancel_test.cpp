// A stop request at every await: the await ends at once, nothing is lost that may not be, nothing
// stays in flight. The runner checks the rest.
#include <array>
#include <thread>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

// Runs `waiting`, stops it after it began to wait, and expects operation_cancelled.
template <class T>
rl::task<void> expect_cancelled(rl::task<T> waiting) {
    bool cancelled = false;
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        const auto member = [](rl::task<T> work, bool& seen) -> rl::task<void> {
            try {
                if constexpr (std::is_void_v<T>) {
                    co_await std::move(work);
                } else {
                    static_cast<void>(co_await std::move(work));
                }
            } catch (const rl::operation_cancelled&) {
                seen = true;
            }
        };
        group.spawn(member(std::move(waiting), cancelled));
        for (int i = 0; i < 3; ++i) co_await rl::yield();
        group.cancel();
    });
    CHECK(cancelled);
}

struct moment {
    const char* name;
    rl::task<void> (*run)();
};

rl::task<void> cancel_receive() {
    auto pair = co_await connected();
    co_await expect_cancelled([](rl::net::tcp_stream& s) -> rl::task<void> {
        auto chunk = co_await s.receive();
    }(pair.far));
    co_await pair.near.write_all("kept");
    co_await expect_text(pair.far, "kept");
}

rl::task<void> cancel_read_some() {
    auto pair = co_await connected();
    std::array<std::byte, 16> memory{};
    co_await expect_cancelled(
        [](rl::net::tcp_stream& s, std::span<std::byte> into) -> rl::task<void> {
            static_cast<void>(co_await s.read_some(into));
        }(pair.far, memory));
    co_await pair.near.write_all("kept");
    const std::size_t count = co_await pair.far.read_some(memory);
    CHECK(text_of(std::span(memory).first(count)) == "kept");
}

rl::task<void> cancel_write() {
    auto pair = co_await connected();
    const std::string large = pattern(32'000'000);
    co_await expect_cancelled(
        [](rl::net::tcp_stream& s, const std::string& text) -> rl::task<void> {
            co_await s.write_all(text);
        }(pair.near, large));
    pair.near.close();
    const std::string got = co_await read_all(pair.far);
    CHECK(got == std::string_view(large).substr(0, got.size()));  // a prefix, nothing else
}

rl::task<void> cancel_write_of_pieces() {
    auto pair = co_await connected();
    const std::string large = pattern(32'000'000);
    co_await expect_cancelled([](rl::net::tcp_stream& s,
                                 const std::string& text) -> rl::task<void> {
        const auto bytes = std::as_bytes(std::span(text));
        const std::array<std::span<const std::byte>, 2> pieces{bytes.first(7), bytes.subspan(7)};
        co_await s.write_all(pieces);
    }(pair.near, large));
    pair.near.close();
    const std::string got = co_await read_all(pair.far);
    CHECK(got == std::string_view(large).substr(0, got.size()));
}

rl::task<void> cancel_accept() {
    auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
    co_await expect_cancelled([](rl::net::tcp_listener& l) -> rl::task<void> {
        auto stream = co_await l.accept();
    }(listener));
    auto near = co_await rl::net::tcp_stream::connect(listener.local());
    auto far = co_await listener.accept();
    CHECK(far);
}

rl::task<void> cancel_sleep() {
    co_await expect_cancelled(
        []() -> rl::task<void> { co_await rl::sleep_for(std::chrono::hours(1000)); }());
}

rl::task<void> cancel_ready() {
    auto pair = co_await connected();
    co_await expect_cancelled([](int fd) -> rl::task<void> {
        static_cast<void>(co_await rl::net::ready(fd, POLLIN));
    }(pair.far.native_handle()));
}

rl::task<void> cancel_nested_group() {
    auto pair = co_await connected();
    int stopped = 0;
    const auto wait = [&](rl::net::tcp_stream& s) -> rl::task<void> {
        try {
            auto chunk = co_await s.receive();
        } catch (const rl::operation_cancelled&) {
            ++stopped;
            throw;
        }
    };
    co_await expect_cancelled([](auto& waiting, stream_pair& p) -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(waiting(p.near));
            group.spawn(waiting(p.far));
            co_return;
        });
    }(wait, pair));
    CHECK(stopped == 2);
}

}  // namespace

TEST_CASE("a stop request ends every await that waits, and loses nothing", "[net][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    const moment m = GENERATE(
        moment{"receive", &cancel_receive}, moment{"read_some", &cancel_read_some},
        moment{"write_all", &cancel_write}, moment{"write_all of pieces", &cancel_write_of_pieces},
        moment{"accept", &cancel_accept}, moment{"sleep", &cancel_sleep},
        moment{"ready", &cancel_ready}, moment{"nested group", &cancel_nested_group});
    CAPTURE(body, m.name);
    runner r(body);
    r.run(m.run());
}

TEST_CASE("an await that begins after a stop request does nothing", "[net][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    int refused = 0;
    const auto try_all = [&](stream_pair& pair, rl::net::tcp_listener& listener,
                             rl::stop_scope& scope) -> rl::task<void> {
        co_await pair.near.write_all("x");
        scope.request_stop();
        std::array<std::byte, 4> memory{};
        const auto count = [&]<class Start>(Start start) -> rl::task<void> {
            try {
                static_cast<void>(co_await start());
            } catch (const rl::operation_cancelled&) {
                ++refused;
            }
        };
        co_await count([&] { return pair.far.receive(); });
        co_await count([&] { return pair.far.read_some(memory); });
        co_await count([&] { return listener.accept(); });
        co_await count([&] { return rl::net::ready(pair.far.native_handle(), POLLOUT); });
        try {
            co_await pair.near.write_all("y");
        } catch (const rl::operation_cancelled&) {
            ++refused;
        }
        try {
            const std::array<std::span<const std::byte>, 1> pieces{std::as_bytes(std::span("y"))};
            co_await pair.near.write_all(pieces);
        } catch (const rl::operation_cancelled&) {
            ++refused;
        }
        try {
            co_await rl::sleep_for(std::chrono::nanoseconds(0));
        } catch (const rl::operation_cancelled&) {
            ++refused;
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
        auto pair = co_await connected();
        rl::stop_scope scope;
        co_await try_all(pair, listener, scope).in(scope);
        co_await expect_text(pair.far, "x");
    };
    r.run(scenario());
    CHECK(refused == 7);
}

TEST_CASE("a stop token that is stopped on another thread ends the task", "[cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::stop_source source;
    const auto scenario = [&]() -> rl::task<void> {
        std::thread other([&] { source.request_stop(); });
        try {
            co_await rl::with_stop(source.get_token(), []() -> rl::task<void> {
                co_await rl::sleep_for(std::chrono::hours(1000));
            }());
            FAIL("it ended");
        } catch (const rl::operation_cancelled&) {
        }
        other.join();
    };
    r.run(scenario());
}
