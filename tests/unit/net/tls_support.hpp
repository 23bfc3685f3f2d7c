// What the tests of TLS share: contexts, sessions over fresh connections, outcomes that failed, and
// a relay that stands in the middle.
#pragma once

#include <array>
#include <string>
#include <tuple>

#include "ringloop/net/tls.hpp"
#include "unit/net/runner.hpp"
#include "unit/net/tls_certificates.hpp"

namespace test {

using rl::net::tls_client_certificate;
using rl::net::tls_client_options;
using rl::net::tls_context;
using rl::net::tls_error;
using rl::net::tls_server_options;
using rl::net::tls_stream;
using rl::net::tls_version;

inline tls_client_options trusting() {
    tls_client_options options;
    options.ca_file = tls_certificates::get().authority;
    return options;
}

inline tls_server_options serving(const tls_identity& who = tls_certificates::get().server) {
    tls_server_options options;
    options.certificate_file = who.certificate;
    options.key_file = who.key;
    return options;
}

struct tls_pair {
    tls_stream near;  // the client
    tls_stream far;
};

// Two ends of a session, over a connection that the caller has made.
template <class Near, class Far>
rl::task<tls_pair> secure(Near near, Far far, const tls_context& client,
                          const tls_context& server) {
    auto both = co_await rl::when_all(tls_stream::connect(client, std::move(near), "server.test"),
                                      tls_stream::accept(server, std::move(far)));
    co_return tls_pair{std::move(std::get<0>(both)), std::move(std::get<1>(both))};
}

inline rl::task<tls_pair> secured(const tls_context& client, const tls_context& server) {
    auto pair = co_await connected();
    co_return co_await secure(std::move(pair.near), std::move(pair.far), client, server);
}

inline rl::task<tls_pair> secured() {
    const auto client = tls_context::client(trusting());
    const auto server = tls_context::server(serving());
    co_return co_await secured(client, server);
}

// Of a raw_peer.
struct raw_failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// How an await ended; all empty: well.
struct outcome {
    bool tls = false;
    bool cut = false;
    int error = 0;  // a socket's errno
    std::string reason;
    std::string verification;
    std::string host;
    std::string what;
    tls_stream stream;
    std::size_t count = 0;
    [[nodiscard]] bool well() const { return !tls && error == 0; }
    [[nodiscard]] bool ended_early() const { return cut || error != 0; }
};

template <class T>
rl::task<outcome> outcome_of(rl::task<T> work) {
    outcome seen;
    try {
        if constexpr (std::is_void_v<T>) {
            co_await std::move(work);
        } else if constexpr (std::is_same_v<T, tls_stream>) {
            seen.stream = co_await std::move(work);
        } else {
            seen.count = co_await std::move(work);
        }
    } catch (const tls_error& e) {
        seen.tls = true;
        seen.cut = e.is_cut();
        seen.reason = e.code().message();
        seen.verification = e.verification();
        seen.host = e.host();
        seen.what = e.what();
    } catch (const raw_failure& e) {
        seen.tls = true;
        seen.reason = e.what();
        seen.what = e.what();
    } catch (const rl::error& e) {
        seen.error = e.code().value();
        seen.what = e.what();
    }
    co_return seen;
}

struct outcomes {
    outcome client;
    outcome server;
};

// A handshake of which something is expected other than success.
inline rl::task<outcomes> meet(const tls_context& client, const tls_context& server,
                               std::string host = "server.test") {
    auto pair = co_await connected();
    auto both =
        co_await rl::when_all(outcome_of(tls_stream::connect(client, std::move(pair.near), host)),
                              outcome_of(tls_stream::accept(server, std::move(pair.far))));
    co_return outcomes{std::move(std::get<0>(both)), std::move(std::get<1>(both))};
}

// The next bytes as text; empty at the end.
inline rl::task<std::string> read_text(tls_stream& stream) {
    std::array<std::byte, 4096> memory;
    const std::size_t count = co_await stream.read_some(memory);
    co_return std::string(text_of(std::span(memory).first(count)));
}

// For outcome_of(): how many.
inline rl::task<std::size_t> read_text_size(tls_stream& stream) {
    const std::string text = co_await read_text(stream);
    co_return text.size();
}

inline rl::task<std::string> read_to_end(tls_stream& stream) {
    std::string all;
    std::string text = co_await read_text(stream);
    while (!text.empty()) {
        all += text;
        text = co_await read_text(stream);
    }
    co_return all;
}

// One byte each way: what the handshake left on its way has arrived.
inline rl::task<void> settle(tls_pair& pair) {
    co_await pair.near.write_all("?");
    const std::string question = co_await read_text(pair.far);
    CHECK(question == "?");
    co_await pair.far.write_all("!");
    const std::string answer = co_await read_text(pair.near);
    CHECK(answer == "!");
}

}  // namespace test
