// Target: a TLS client whose server sends anything, cut anywhere.
#include "ringloop/net/tls.hpp"
#include "ringloop/net/tcp_listener.hpp"
#include "simulated.hpp"

namespace fuzz {
namespace {

using rl::net::tls_stream;

const rl::net::tls_context& trusting_all() {
    static const auto context =
        rl::net::tls_context::client({.ca_file = {},
                                      .ca_directory = {},
                                      .alpn = {},
                                      .certificate_file = {},
                                      .key_file = {},
                                      .crl_file = {},
                                      .minimum = rl::net::tls_version::v1_2,
                                      .insecure_accept_any_certificate = true});
    return context;
}

task<void> serve_bytes(choices& in, rl::net::tcp_listener& listener) {
    auto stream = co_await listener.accept();
    try {
        while (!in.empty()) {
            const std::string_view piece = in.text(1 + in.byte());
            co_await stream.write_all(piece);
            co_await rl::sleep_for(1us);
        }
    } catch (const rl::error&) {
        co_return;  // the client has had enough
    }
}

task<void> meet_server(choices& in) {
    const rl::net::endpoint at("127.0.0.1", 443);
    auto listener = rl::net::tcp_listener::bind(at);
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(serve_bytes(in, listener));
        try {
            auto session = co_await tls_stream::connect(
                trusting_all(), co_await rl::net::tcp_stream::connect(at), "server.test");
            must(false, "no session without a server's key");
        } catch (const rl::error&) {
            group.cancel();
        }
    });
}

const registered tls_peer("tls_peer", [](bytes data) {
    choices in(data);
    simulate(meet_server(in));
});

}  // namespace
}  // namespace fuzz
