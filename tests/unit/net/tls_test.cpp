// TLS sessions between two of ours: bytes both ways, what was agreed on, ends, cancels, new keys.
#include <filesystem>

#include "unit/net/tls_support.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

rl::task<void> send_all(tls_stream& stream, const std::string& text) {
    co_await stream.write_all(text);
    co_await stream.close_notify();
}

rl::task<void> take_all(tls_stream& stream, const std::string& expected) {
    const std::string got = co_await read_to_end(stream);
    CHECK((got == expected));  // not printed
}

// Both write and read at once, until both have ended.
rl::task<void> both_ways(tls_pair& pair, const std::string& there, const std::string& back) {
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn(send_all(pair.near, there));
        group.spawn(send_all(pair.far, back));
        group.spawn(take_all(pair.near, back));
        group.spawn(take_all(pair.far, there));
        co_return;
    });
}

// Runs `waiting`, stops it after it began to wait, and expects operation_cancelled.
template <class T>
rl::task<void> expect_cancelled(rl::task<T> waiting) {
    bool cancelled = false;
    const auto member = [](rl::task<T> work, bool& seen) -> rl::task<void> {
        try {
            static_cast<void>(co_await outcome_of(std::move(work)));
        } catch (const rl::operation_cancelled&) {
            seen = true;
        }
    };
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn(member(std::move(waiting), cancelled));
        for (int i = 0; i < 5; ++i) co_await rl::yield();
        group.cancel();
    });
    CHECK(cancelled);
}

template <class T>
rl::task<bool> is_refused(rl::task<T> work) {
    try {
        static_cast<void>(co_await outcome_of(std::move(work)));
    } catch (const std::logic_error&) {
        co_return true;
    }
    co_return false;
}

}  // namespace

TEST_CASE("1 MiB travels both ways at once over TLS", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string there = pattern(1 << 20, 1);
    const std::string back = pattern(1 << 20, 2);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await both_ways(pair, there, back);
        const bool confirmed = co_await pair.near.shutdown();
        CHECK(confirmed);
    };
    r.run(scenario());
}

TEST_CASE("TLS over a Unix socket", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string at = tls_certificates::get().folder + "/socket";
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = rl::net::unix_listener::bind(rl::net::unix_endpoint(at));
        auto near = co_await rl::net::unix_stream::connect(listener.local());
        auto far = co_await listener.accept();
        const auto client = tls_context::client(trusting());
        const auto server = tls_context::server(serving());
        auto pair = co_await secure(std::move(near), std::move(far), client, server);
        co_await both_ways(pair, pattern(100'000, 1), pattern(100'000, 2));
    };
    r.run(scenario());
}

TEST_CASE("a TLS session over sockets that take a byte at a time", "[net][tls]") {
    rl::testing::fake_config slow;
    slow.kernel.socket_buffer = 1;
    rl::scheduler home(std::make_unique<rl::testing::fake_driver>(slow));
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await both_ways(pair, pattern(1000, 1), pattern(1000, 2));
    };
    rl::sync_wait(home, scenario());
}

TEST_CASE("a TLS session says what was agreed on", "[net][tls]") {
    const auto body = rl::testing::real_bodies().back();
    const auto& made = tls_certificates::get();
    runner r(body);
    auto client_options = trusting();
    client_options.alpn = {"h3", "h2", "http/1.1"};
    client_options.certificate_file = made.client.certificate;
    client_options.key_file = made.client.key;
    auto server_options = serving();
    server_options.alpn = {"http/1.1", "h2"};
    server_options.client_certificate = tls_client_certificate::required;
    server_options.client_ca_file = made.authority;
    const auto client = tls_context::client(client_options);
    const auto server = tls_context::server(server_options);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured(client, server);
        for (const tls_stream* end : {&pair.near, &pair.far}) {
            CHECK(end->alpn() == "http/1.1");  // the server's choice
            CHECK(end->version() == "TLSv1.3");
            CHECK(end->cipher().starts_with("TLS_"));
            CHECK(end->native_handle() >= 0);
        }
        const auto subject = pair.far.peer_subject();
        CHECK(text_of(subject).find("a client") != std::string_view::npos);
        const auto server_certificate = pair.near.peer_certificate();
        CHECK(text_of(server_certificate).find("server.test") != std::string_view::npos);
        co_await settle(pair);
    };
    r.run(scenario());
}

TEST_CASE("ALPN that does not meet is refused, where one side has none it is left open", "[tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto scenario = [&]() -> rl::task<void> {
        auto client_options = trusting();
        client_options.alpn = {"h2"};
        auto server_options = serving();
        server_options.alpn = {"http/1.1"};
        const auto client = tls_context::client(client_options);
        const auto server = tls_context::server(server_options);
        const outcomes seen = co_await meet(client, server);
        CHECK(seen.client.reason == "tlsv1 alert no application protocol");
        CHECK(seen.server.reason == "no application protocol");
        const auto without = tls_context::client(trusting());
        const outcomes left_open = co_await meet(without, server);
        CHECK(left_open.client.well());
        CHECK(left_open.server.stream.alpn().empty());
        const auto old = tls_context::server(serving());
        const outcomes ignored = co_await meet(client, old);
        CHECK(ignored.client.well());
        CHECK(ignored.client.stream.alpn().empty());
    };
    r.run(scenario());
}

TEST_CASE("after its own close_notify a session still reads, up to the peer's", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await pair.near.write_all("last words");
        co_await pair.near.close_notify();
        co_await pair.near.close_notify();  // once is enough
        const bool refused = co_await is_refused(pair.near.write_all("more"));
        CHECK(refused);
        const std::string words = co_await read_to_end(pair.far);
        CHECK(words == "last words");
        const std::string again = co_await read_text(pair.far);
        CHECK(again.empty());
        co_await pair.far.write_all("an answer");
        const std::string answer = co_await read_text(pair.near);
        CHECK(answer == "an answer");
        const bool confirmed = co_await pair.far.shutdown();  // the other's came already
        CHECK(confirmed);
        CHECK_FALSE(pair.far);
        const std::string end = co_await read_text(pair.near);
        CHECK(end.empty());
    };
    r.run(scenario());
}

TEST_CASE("shutdown drops what still comes, and ends when the peer's close_notify has", "[tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await pair.far.write_all(pattern(20'000));
        auto both = co_await rl::when_all(pair.near.shutdown(), pair.far.shutdown());
        CHECK(std::get<0>(both));
        CHECK(std::get<1>(both));
    };
    r.run(scenario());
}

TEST_CASE("shutdown never hangs: silent peer, peer that does not read, peer that left", "[tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string much = pattern(16'000'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto silent = co_await secured();
        bool confirmed = co_await silent.near.shutdown(5ms);
        CHECK_FALSE(confirmed);
        CHECK_FALSE(silent.near);
        const std::string end = co_await read_text(silent.far);
        CHECK(end.empty());  // it was told all the same

        auto full = co_await secured();
        co_await expect_cancelled(full.near.write_all(much));
        confirmed = co_await full.near.shutdown(5ms);
        CHECK_FALSE(confirmed);

        auto gone = co_await secured();
        gone.far.close();
        confirmed = co_await gone.near.shutdown();
        CHECK_FALSE(confirmed);

        auto stopped = co_await secured();
        co_await expect_cancelled(stopped.near.shutdown(1h));
        CHECK_FALSE(stopped.near);
    };
    r.run(scenario());
}

TEST_CASE("no bytes are written and read as nothing", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await pair.near.write_all("");
        const std::size_t none = co_await pair.near.write_some({});
        CHECK(none == 0);
        const std::size_t nothing = co_await pair.near.read_some({});
        CHECK(nothing == 0);
        const std::string large = pattern(100'000);
        const std::size_t some = co_await pair.near.write_some(std::as_bytes(std::span(large)));
        CHECK(some > 0);
        CHECK(some <= 16384);
        co_await pair.near.close_notify();
        const std::string got = co_await read_to_end(pair.far);
        CHECK((got == large.substr(0, some)));
    };
    r.run(scenario());
}

TEST_CASE("a cancelled handshake closes the stream", "[net][tls][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const auto client = tls_context::client(trusting());
        const auto server = tls_context::server(serving());
        auto first = co_await connected();
        co_await expect_cancelled(
            tls_stream::connect(client, std::move(first.near), "server.test"));
        const std::string hello = co_await read_all(first.far);  // to the end: it was closed
        CHECK(hello.size() > 100);
        auto second = co_await connected();
        co_await expect_cancelled(tls_stream::accept(server, std::move(second.far)));
        co_await expect_end(second.near);
    };
    r.run(scenario());
}

TEST_CASE("a cancelled TLS read loses nothing", "[net][tls][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        for (int i = 0; i < 3; ++i) {
            std::array<std::byte, 64> memory;
            co_await expect_cancelled(pair.far.read_some(memory));
            co_await pair.near.write_all("kept");
            const std::string kept = co_await read_text(pair.far);
            CHECK(kept == "kept");
        }
    };
    r.run(scenario());
}

TEST_CASE("a cancelled TLS write leaves a prefix and a session in order", "[net][tls][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string large = pattern(16'000'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await expect_cancelled(pair.near.write_all(large));
        std::string got;
        auto both = co_await rl::when_all(pair.near.shutdown(),
                                          [](tls_stream& s, std::string& all) -> rl::task<bool> {
                                              all = co_await read_to_end(s);
                                              co_return co_await s.shutdown();
                                          }(pair.far, got));
        CHECK(std::get<0>(both));
        CHECK(std::get<1>(both));
        CHECK(!got.empty());
        CHECK(got.size() < large.size());
        CHECK((got == std::string_view(large).substr(0, got.size())));
    };
    r.run(scenario());
}

TEST_CASE("a cancelled write_some returns its count or has written nothing", "[tls][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string piece = pattern(16384);
    std::size_t written = 0;
    const auto fill = [&](tls_stream& stream) -> rl::task<void> {
        while (true) written += co_await stream.write_some(std::as_bytes(std::span(piece)));
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(fill(pair.near));
            std::size_t before = 1;
            while (before != written) {  // until it waits
                before = written;
                for (int i = 0; i < 5; ++i) co_await rl::yield();
            }
            group.cancel();
        });
        std::string got;
        while (got.size() < written) got += co_await read_text(pair.far);
        CHECK(got.size() == written);
        pair.near.close();
        const auto end = co_await outcome_of(read_text_size(pair.far));
        CHECK(end.cut);
    };
    r.run(scenario());
}

TEST_CASE("new keys while bytes travel both ways", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string text = pattern(300'000);
    const auto send = [&](tls_stream& stream) -> rl::task<void> {
        for (int i = 0; i < 5; ++i) {
            co_await stream.write_all(text);
            co_await stream.update_keys();
        }
        co_await stream.close_notify();
    };
    const auto take = [&](tls_stream& stream) -> rl::task<void> {
        const std::string got = co_await read_to_end(stream);
        CHECK((got == text + text + text + text + text));
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(send(pair.near));
            group.spawn(send(pair.far));
            group.spawn(take(pair.near));
            group.spawn(take(pair.far));
            co_return;
        });
    };
    r.run(scenario());
}

TEST_CASE("a second reader or writer of a TLS stream is refused, and one of none", "[net][tls]") {
    runner r(rl::testing::all_bodies().back());
    const std::string large = pattern(1'000'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        std::array<std::byte, 16> memory;
        int refused = 0;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            const auto swallow = [](auto work) -> rl::task<void> {
                static_cast<void>(co_await std::move(work));
            };
            group.spawn(swallow(pair.near.read_some(memory)));
            group.spawn(pair.near.write_all(large));
            for (int i = 0; i < 5; ++i) co_await rl::yield();
            refused += co_await is_refused(pair.near.read_some(memory)) ? 1 : 0;
            refused += co_await is_refused(pair.near.write_all("x")) ? 1 : 0;
            refused += co_await is_refused(pair.near.close_notify()) ? 1 : 0;
            refused += co_await is_refused(pair.near.update_keys()) ? 1 : 0;
            refused += co_await is_refused(pair.near.shutdown()) ? 1 : 0;
            group.cancel();
        });
        CHECK(refused == 5);
        pair.near.close();
        CHECK_THROWS_AS(pair.near.write_all("x"), std::logic_error);
        CHECK_THROWS_AS(pair.near.alpn(), std::logic_error);
        CHECK(pair.near.native_handle() == -1);
    };
    r.run(scenario());
}
