// Sessions that are taken up again: when, how often, and when not.
#include "unit/net/tls_support.hpp"

using namespace test;  // NOLINT

namespace {

tls_client_options remembering(std::size_t sessions_max) {
    auto options = trusting();
    options.sessions_max = sessions_max;
    return options;
}

// Whether a session between these two is an earlier one's; the tickets for later ones are read.
rl::task<bool> resumes(const tls_context& client, const tls_context& server) {
    auto pair = co_await secured(client, server);
    co_await settle(pair);
    CHECK(pair.near.resumed() == pair.far.resumed());
    const bool resumed = pair.near.resumed();
    CHECK_FALSE(pair.near.peer_certificate().empty());
    co_return resumed;
}

}  // namespace

TEST_CASE("a client that keeps sessions resumes them, and reads and writes as before", "[tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(remembering(8));
    const auto scenario = [&]() -> rl::task<void> {
        const bool first = co_await resumes(client, server);
        CHECK_FALSE(first);
        for (int i = 0; i < 3; ++i) {
            const bool later = co_await resumes(client, server);
            CHECK(later);
        }
    };
    r.run(scenario());
}

TEST_CASE("a session of TLS 1.3 is used once, and no more are kept than allowed", "[tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(remembering(1));
    const auto scenario = [&]() -> rl::task<void> {
        const bool first = co_await resumes(client, server);
        CHECK_FALSE(first);
        // The only one is taken by the first of two that shake hands at once.
        auto near = co_await connected();
        auto far = co_await connected();
        auto both =
            co_await rl::when_all(secure(std::move(near.near), std::move(near.far), client, server),
                                  secure(std::move(far.near), std::move(far.far), client, server));
        CHECK(std::get<0>(both).near.resumed());
        CHECK_FALSE(std::get<1>(both).near.resumed());
    };
    r.run(scenario());
}

TEST_CASE("nothing is resumed by default, with another host, context or server", "[tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto scenario = [&]() -> rl::task<void> {
        const auto plain = tls_context::client(trusting());
        const auto client = tls_context::client(remembering(8));
        for (int i = 0; i < 2; ++i) {
            const bool by_default = co_await resumes(plain, server);
            CHECK_FALSE(by_default);
        }
        const bool first = co_await resumes(client, server);
        CHECK_FALSE(first);
        const outcomes elsewhere = co_await meet(client, server, "any.wild.test");
        CHECK_FALSE(elsewhere.client.stream.resumed());
        const auto other_client = tls_context::client(remembering(8));
        const bool by_other = co_await resumes(other_client, server);
        CHECK_FALSE(by_other);
        // The tickets say nothing to a server that did not write them: a whole handshake.
        const auto other_server = tls_context::server(serving());
        const bool at_other = co_await resumes(client, other_server);
        CHECK_FALSE(at_other);
    };
    r.run(scenario());
}
