// Streams that are cut, at every flight of the handshake and at every byte of a record; peers that
// abuse what a session must answer; a handshake's message that comes in two parts.
#include "unit/net/tls_raw_peer.hpp"
#include "unit/net/tls_support.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

rl::task<std::size_t> read_plain(rl::net::tcp_stream& stream, std::span<std::byte> into) {
    co_return co_await stream.read_some(into);
}

// Stands between two streams. Lets `left_to_right` and `right_to_left` bytes through; when
// one of them is used up, or an end has come, closes both.
struct relay {
    rl::net::tcp_stream left;
    rl::net::tcp_stream right;
    std::size_t left_to_right = SIZE_MAX;
    std::size_t right_to_left = SIZE_MAX;
    std::size_t passed_right = 0;
    std::size_t passed_left = 0;
    std::size_t flip = SIZE_MAX;  // the byte, of those to the right, that gets through changed

    rl::task<void> run() {
        co_await rl::with_group([this](rl::task_group& group) -> rl::task<void> {
            group.spawn(pass(left, right, left_to_right, passed_right, flip, group));
            group.spawn(pass(right, left, right_to_left, passed_left, never, group));
            co_return;
        });
        left.close();
        right.close();
    }

  private:
    static constexpr std::size_t never = SIZE_MAX;
    static rl::task<void> pass(rl::net::tcp_stream& from, rl::net::tcp_stream& to,
                               const std::size_t& allowed, std::size_t& passed,
                               const std::size_t& flip, rl::task_group& group) {
        while (passed < allowed) {
            std::array<std::byte, 4096> memory;
            const auto got = co_await outcome_of(read_plain(from, memory));
            if (!got.well() || got.count == 0) break;
            const std::size_t count = std::min(got.count, allowed - passed);
            if (flip - passed < count) memory[flip - passed] ^= std::byte(1);
            passed += count;
            co_await to.write_all(std::span(memory).first(count));
        }
        group.cancel();
    }
};

struct relayed {
    rl::net::tcp_stream near;
    rl::net::tcp_stream far;
    relay between;
};

rl::task<relayed> through_relay() {
    auto first = co_await connected();
    auto second = co_await connected();
    relayed made;
    made.near = std::move(first.near);
    made.between.left = std::move(first.far);
    made.between.right = std::move(second.near);
    made.far = std::move(second.far);
    co_return made;
}

// How a handshake ended and, if it ended well, the read after it.
struct attempt {
    outcome handshake;
    outcome read;
    [[nodiscard]] bool ended_early() const {
        return handshake.ended_early() || (handshake.well() && read.ended_early());
    }
};

rl::task<bool> shake_and_read(rl::task<tls_stream> handshake, attempt& seen) {
    seen.handshake = co_await outcome_of(std::move(handshake));
    if (seen.handshake.well())
        seen.read = co_await outcome_of(read_text_size(seen.handshake.stream));
    co_return true;
}

// Both ends at once, while the relay works.
rl::task<void> shake_through(relayed& way, attempt& client, attempt& server) {
    const auto trust = tls_context::client(trusting());
    const auto identity = tls_context::server(serving());
    co_await rl::when_all(
        shake_and_read(tls_stream::connect(trust, std::move(way.near), "server.test"), client),
        shake_and_read(tls_stream::accept(identity, std::move(way.far)), server));
}

struct totals {
    std::size_t right = 0;
    std::size_t left = 0;
};

// What a whole handshake takes, tickets included.
rl::task<totals> measure() {
    auto way = co_await through_relay();
    totals seen;
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn(way.between.run());
        const auto client = tls_context::client(trusting());
        const auto server = tls_context::server(serving());
        auto pair = co_await secure(std::move(way.near), std::move(way.far), client, server);
        co_await settle(pair);
        seen = {way.between.passed_right - 23, way.between.passed_left - 23};
    });
    co_return seen;
}

}  // namespace

TEST_CASE("a handshake that is cut anywhere fails on both sides, or the read after it does",
          "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto cut = [](std::size_t right, std::size_t left) -> rl::task<void> {
        auto way = co_await through_relay();
        way.between.left_to_right = right;
        way.between.right_to_left = left;
        attempt client;
        attempt server;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(way.between.run());
            group.spawn(shake_through(way, client, server));
            co_return;
        });
        CAPTURE(right, left, client.handshake.what, client.read.what);
        CAPTURE(server.handshake.what, server.read.what);
        CHECK(client.ended_early());
        CHECK(server.ended_early());
    };
    const auto scenario = [&]() -> rl::task<void> {
        const totals whole = co_await measure();
        CHECK(whole.right > 250);
        CHECK(whole.left > 800);
        constexpr std::size_t parts = 8;  // every flight, in its middle and near its ends
        for (std::size_t i = 0; i < parts; ++i) {
            co_await cut(whole.right * i / parts, SIZE_MAX);
            co_await cut(SIZE_MAX, whole.left * i / parts);
        }
        co_await cut(1, SIZE_MAX);
        co_await cut(whole.right - 8, SIZE_MAX);  // a signature's size varies by some bytes
        co_await cut(SIZE_MAX, whole.left - 8);
    };
    r.run(scenario());
}

TEST_CASE("a stream that is cut without a close_notify is an error, at every byte of a record",
          "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    constexpr std::size_t record = 5 + 10 + 1 + 16;
    const auto client = tls_context::client(trusting());
    const auto server = tls_context::server(serving());
    const auto cut_after = [&](std::size_t count) -> rl::task<void> {
        auto way = co_await through_relay();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(way.between.run());
            auto pair = co_await secure(std::move(way.near), std::move(way.far), client, server);
            co_await settle(pair);
            if (count == 0) {
                pair.near.close();
            } else {
                way.between.left_to_right = way.between.passed_right + count;
                co_await pair.near.write_all("ten bytes.");
            }
            if (count == record) {
                const std::string all = co_await read_text(pair.far);
                CHECK(all == "ten bytes.");
            }
            for (int again = 0; again < 2; ++again) {
                const outcome end = co_await outcome_of(read_text_size(pair.far));
                CHECK(end.cut);
                CHECK(end.reason == "unexpected eof while reading");
            }
        });
    };
    const auto scenario = [&]() -> rl::task<void> {
        for (std::size_t count = 0; count <= record; ++count) co_await cut_after(count);
    };
    r.run(scenario());
}

TEST_CASE("a byte that was changed on the way is an error, wherever in a record", "[net][tls]") {
    runner r(rl::testing::all_bodies().back());
    constexpr std::size_t record = 5 + 10 + 1 + 16;
    const auto client = tls_context::client(trusting());
    const auto server = tls_context::server(serving());
    const auto change = [&](std::size_t place) -> rl::task<void> {
        auto way = co_await through_relay();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(way.between.run());
            auto pair = co_await secure(std::move(way.near), std::move(way.far), client, server);
            co_await settle(pair);
            way.between.flip = way.between.passed_right + place;
            co_await pair.near.write_all("ten bytes.");
            co_await pair.near.close_notify();
            pair.near.close();
            const outcome end = co_await outcome_of(read_text_size(pair.far));
            CHECK(end.tls);
            const outcome again = co_await outcome_of(read_text_size(pair.far));
            CHECK(again.reason == end.reason);
            if (!end.cut) {  // it was, where the record seemed longer
                const outcome written = co_await outcome_of(pair.far.write_all("x"));
                CHECK(written.reason == end.reason);
            }
            const bool confirmed = co_await pair.far.shutdown();
            CHECK_FALSE(confirmed);
        });
    };
    const auto scenario = [&]() -> rl::task<void> {
        for (std::size_t place = 0; place < record; ++place) co_await change(place);
    };
    r.run(scenario());
}

TEST_CASE("a reset connection is a socket's error", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await secured();
        const linger at_once{1, 0};
        REQUIRE(r.home.io().set_option(pair.near.native_handle(), SOL_SOCKET, SO_LINGER, &at_once,
                                       sizeof at_once) == 0);
        pair.near.close();
        const outcome read = co_await outcome_of(read_text_size(pair.far));
        CHECK(read.error == ECONNRESET);
        const outcome written = co_await outcome_of(pair.far.write_all("x"));
        CHECK(written.error != 0);
        const bool confirmed = co_await pair.far.shutdown();
        CHECK_FALSE(confirmed);
    };
    r.run(scenario());
}

namespace {

// Makes the server's tickets large, so that they take several records.
int fat_ticket(SSL* ssl, void*) {
    const std::string filling(1500, 'x');
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), filling.data(), filling.size());
}

rl::task<void> note_end(rl::task<void> work, bool& ended) {
    co_await std::move(work);
    ended = true;
}

rl::task<void> note_text(tls_stream& stream, std::string& text) {
    try {
        text = co_await read_text(stream);
    } catch (const rl::operation_cancelled&) {
        text = "cancelled";
    }
}

}  // namespace

TEST_CASE("a write waits while a message of the handshake has come in part", "[net][tls]") {
    const bool reader_gives_up = GENERATE(false, true);
    CAPTURE(reader_gives_up);
    runner r(rl::testing::all_bodies().back());
    const auto client = tls_context::client(trusting());
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        raw_peer peer(std::move(pair.far), true);
        SSL_CTX_set_max_send_fragment(peer.context(), 512);
        SSL_CTX_set_session_ticket_cb(peer.context(), &fat_ticket, nullptr, nullptr);
        peer.hold_last();
        auto both = co_await rl::when_all(
            tls_stream::connect(client, std::move(pair.near), "server.test"), peer.handshake());
        auto& stream = std::get<0>(both);
        const std::string tickets = peer.take_output();
        REQUIRE(tickets.size() > 2000);
        bool written = false;
        std::string text;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            rl::stop_scope reader(&group.scope());
            group.spawn(note_text(stream, text).in(reader));
            co_await peer.send(tickets.substr(0, 600));
            co_await rl::sleep_for(1ms);
            group.spawn(note_end(stream.write_all("a question"), written));
            co_await rl::sleep_for(1ms);
            CHECK_FALSE(written);
            if (reader_gives_up) reader.request_stop();
            co_await peer.send(tickets.substr(600));
            const std::string question = co_await peer.read();
            CHECK(question == "a question");
            if (!reader_gives_up) co_await peer.write("an answer");
        });
        CHECK(written);
        CHECK(text == (reader_gives_up ? "cancelled" : "an answer"));
    };
    r.run(scenario());
}

TEST_CASE("a peer that asks for new keys and reads no answers is waited for, not buffered for",
          "[net][tls]") {
    rl::testing::fake_config small;
    small.kernel.socket_buffer = 4096;
    rl::scheduler home(std::make_unique<rl::testing::fake_driver>(small));
    const auto server = tls_context::server(serving());
    constexpr int updates = 8000;  // 27 bytes each: more than all buffers take together
    const auto drain = [](rl::net::tcp_stream& stream, const bool& until) -> rl::task<void> {
        std::array<std::byte, 4096> memory;
        while (!until) static_cast<void>(co_await stream.read_some(memory));
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        raw_peer peer(std::move(pair.near), false);
        auto both = co_await rl::when_all(peer.handshake(),
                                          tls_stream::accept(server, std::move(pair.far)));
        for (int i = 0; i < updates; ++i) {
            SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED);
            SSL_do_handshake(peer.ssl());
        }
        bool sent = false;
        std::string text;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(note_text(std::get<1>(both), text));
            group.spawn(note_end(peer.send(peer.take_output()), sent));
            co_await rl::sleep_for(1s);
            CHECK_FALSE(sent);
            co_await drain(peer.stream(), sent);
            group.cancel();
        });
        CHECK(text == "cancelled");  // a session as before
    };
    rl::sync_wait(home, scenario());
}

TEST_CASE("a client that wants to renegotiate is told no", "[net][tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto scenario = [&]() -> rl::task<void> {
        auto pair = co_await connected();
        raw_peer peer(std::move(pair.near), false);
        peer.limit_to(TLS1_2_VERSION);
        auto both = co_await rl::when_all(peer.handshake(),
                                          tls_stream::accept(server, std::move(pair.far)));
        SSL_renegotiate(peer.ssl());
        auto ends = co_await rl::when_all(
            outcome_of(peer.run([](SSL* ssl) { return SSL_do_handshake(ssl); })),
            outcome_of(read_text_size(std::get<1>(both))));
        CHECK(std::get<0>(ends).reason == "no renegotiation");
        CHECK(std::get<1>(ends).reason == "sslv3 alert handshake failure");  // it gives up
    };
    r.run(scenario());
}
