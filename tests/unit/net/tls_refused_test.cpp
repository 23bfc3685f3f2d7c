// What TLS must refuse, and how it says so: certificates, hosts, clients, old versions, bytes that
// are no TLS, files that are no certificates.
#include <arpa/inet.h>

#include <fstream>

#include "unit/net/tls_raw_peer.hpp"
#include "unit/net/tls_support.hpp"

using namespace test;  // NOLINT

namespace {

struct refusal {
    const char* name;
    tls_identity tls_certificates::*server;
    const char* host;
    const char* verification;
};

constexpr const char* no_name = "hostname mismatch";

tls_client_options showing(const tls_identity& who) {
    auto options = trusting();
    options.certificate_file = who.certificate;
    options.key_file = who.key;
    return options;
}

tls_server_options asking(tls_client_certificate how) {
    auto options = serving();
    options.client_certificate = how;
    options.client_ca_file = tls_certificates::get().authority;
    return options;
}

// A client whose handshake may have ended well before the server refuses it reads why.
rl::task<outcome> what_client_hears(outcomes& seen) {
    if (!seen.client.well()) co_return std::move(seen.client);
    co_return co_await outcome_of(read_text_size(seen.client.stream));
}

template <class Make>
rl::error error_of(Make make) {
    try {
        static_cast<void>(make());
    } catch (const rl::error& e) {
        return e;
    }
    FAIL("no error");
    throw std::logic_error("not reached");
}

}  // namespace

TEST_CASE("a certificate that is not good for the host is refused, both sides say why", "[tls]") {
    const refusal r = GENERATE(
        refusal{"wrong host", &tls_certificates::server, "elsewhere.test", no_name},
        refusal{"other host's", &tls_certificates::other_server, "server.test", no_name},
        refusal{"wrong address", &tls_certificates::server, "127.0.0.2", "IP address mismatch"},
        refusal{"a wildcard spans no dot", &tls_certificates::server, "a.b.wild.test", no_name},
        refusal{"no partial name", &tls_certificates::server, "test", no_name},
        refusal{"expired", &tls_certificates::expired, "server.test", "certificate has expired"},
        refusal{"not yet valid", &tls_certificates::not_yet_valid, "server.test",
                "certificate is not yet valid"},
        refusal{"self-signed", &tls_certificates::self_signed, "server.test",
                "self-signed certificate"},
        refusal{"unknown authority", &tls_certificates::of_other, "server.test",
                "unable to get local issuer certificate"},
        refusal{"a client's", &tls_certificates::for_clients_only, "server.test",
                "unsuitable certificate purpose"});
    CAPTURE(r.name);
    runner home(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving(tls_certificates::get().*r.server));
    const auto client = tls_context::client(trusting());
    const auto scenario = [&]() -> rl::task<void> {
        const outcomes seen = co_await meet(client, server, r.host);
        CHECK(seen.client.tls);
        CHECK(seen.client.reason == "certificate verify failed");
        CHECK(seen.client.verification == r.verification);
        CHECK(seen.client.host == r.host);
        CHECK(seen.client.what == std::string("TLS handshake with ") + r.host + ": " +
                                      r.verification + ": certificate verify failed");
        CHECK(seen.server.tls);
        CHECK(seen.server.reason.find("alert") != std::string::npos);
    };
    home.run(scenario());
}

TEST_CASE("a server's certificate that was withdrawn is refused, and one that no list covers",
          "[tls]") {
    struct listed {
        const char* name;
        tls_identity tls_certificates::*server;
        std::string tls_certificates::*list;
        const char* verification;  // empty: accepted
    };
    const listed l =
        GENERATE(listed{"good", &tls_certificates::server, &tls_certificates::withdrawn, ""},
                 listed{"withdrawn", &tls_certificates::revoked, &tls_certificates::withdrawn,
                        "certificate revoked"},
                 listed{"an old list", &tls_certificates::server, &tls_certificates::outdated,
                        "CRL has expired"},
                 listed{"another authority's list", &tls_certificates::server,
                        &tls_certificates::withdrawn_by_other, "unable to get certificate CRL"});
    CAPTURE(l.name);
    runner r(rl::testing::all_bodies().back());
    const auto& all = tls_certificates::get();
    auto options = trusting();
    options.crl_file = all.*l.list;
    const auto client = tls_context::client(options);
    const auto server = tls_context::server(serving(all.*l.server));
    const auto scenario = [&]() -> rl::task<void> {
        const outcomes seen = co_await meet(client, server);
        CHECK(seen.client.verification == l.verification);
        CHECK(seen.client.well() == (*l.verification == '\0'));
    };
    r.run(scenario());
}

TEST_CASE("a client's certificate that was withdrawn is refused", "[tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto& all = tls_certificates::get();
    auto options = asking(tls_client_certificate::required);
    options.client_crl_file = all.withdrawn;
    const auto server = tls_context::server(options);
    const auto scenario = [&]() -> rl::task<void> {
        const auto good = tls_context::client(showing(all.client));
        const outcomes well = co_await meet(good, server);
        CHECK(well.server.well());
        const auto lost = tls_context::client(showing(all.revoked_client));
        const outcomes seen = co_await meet(lost, server);
        CHECK(seen.server.verification == "certificate revoked");
    };
    r.run(scenario());
}

TEST_CASE("lists of withdrawn certificates that cannot be used are refused with their context",
          "[tls]") {
    const auto& all = tls_certificates::get();
    auto options = trusting();
    options.crl_file = "/nowhere/lists";
    const rl::error absent = error_of([&] { return tls_context::client(options); });
    CHECK(absent.code() == std::errc::no_such_file_or_directory);
    CHECK(std::string(absent.what()).find("/nowhere/lists") != std::string::npos);
    options.crl_file = all.server.key;
    CHECK_THROWS_AS(tls_context::client(options), tls_error);
    options.crl_file = all.withdrawn;
    options.insecure_accept_any_certificate = true;
    CHECK_THROWS_AS(tls_context::client(options), std::invalid_argument);
    auto deaf = serving();
    deaf.client_crl_file = all.withdrawn;
    CHECK_THROWS_AS(tls_context::server(deaf), std::invalid_argument);
}

TEST_CASE("hosts that a certificate is good for: names, wildcards, addresses", "[net][tls]") {
    const std::string host =
        GENERATE("server.test", "SERVER.test", "server.test.", "any.wild.test", "127.0.0.1");
    CAPTURE(host);
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(trusting());
    const auto scenario = [&]() -> rl::task<void> {
        const outcomes seen = co_await meet(client, server, host);
        CHECK(seen.client.what.empty());
        CHECK(seen.server.what.empty());
    };
    r.run(scenario());
}

TEST_CASE("without authorities of its own a client trusts the system's, which are not ours",
          "[tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto scenario = [&]() -> rl::task<void> {
        const auto client = tls_context::client();
        const outcomes seen = co_await meet(client, server);
        CHECK(seen.client.verification == "unable to get local issuer certificate");
        tls_client_options careless;
        careless.insecure_accept_any_certificate = true;
        const auto anybody = tls_context::client(careless);
        const outcomes trusted = co_await meet(anybody, server, "");
        CHECK(trusted.client.well());
        CHECK(trusted.server.well());
    };
    r.run(scenario());
}

TEST_CASE("client certificates: missing, strange, expired, optional", "[net][tls]") {
    struct visit {
        const char* name;
        tls_client_certificate how;
        tls_identity tls_certificates::*who;  // null: none
        const char* reason;                   // the server's; null: all is well
        const char* verification;             // likewise
    };
    const auto required = tls_client_certificate::required;
    const auto optional = tls_client_certificate::optional;
    constexpr const char* failed = "certificate verify failed";
    const visit v =
        GENERATE_COPY(visit{"shown", required, &tls_certificates::client, nullptr, nullptr},
                      visit{"missing", required, nullptr, "peer did not return a certificate", ""},
                      visit{"strange", required, &tls_certificates::client_of_other, failed,
                            "unable to get local issuer certificate"},
                      visit{"expired", required, &tls_certificates::expired_client, failed,
                            "certificate has expired"},
                      visit{"not needed", optional, nullptr, nullptr, nullptr},
                      visit{"optional but strange", optional, &tls_certificates::client_of_other,
                            failed, "unable to get local issuer certificate"});
    const bool old = GENERATE(false, true);
    CAPTURE(v.name, old);
    const auto& made = tls_certificates::get();
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(asking(v.how));
    const auto client = tls_context::client(v.who != nullptr ? showing(made.*v.who) : trusting());
    const auto scenario = [&]() -> rl::task<void> {
        outcomes seen;
        outcome heard;
        if (old) {
            auto pair = co_await connected();
            raw_peer peer(std::move(pair.near), false);
            peer.limit_to(TLS1_2_VERSION);
            if (v.who != nullptr) peer.show(made.*v.who);
            auto both =
                co_await rl::when_all(outcome_of(peer.handshake()),
                                      outcome_of(tls_stream::accept(server, std::move(pair.far))));
            heard = std::move(std::get<0>(both));
            seen.server = std::move(std::get<1>(both));
        } else {
            seen = co_await meet(client, server);
            if (v.reason != nullptr) heard = co_await what_client_hears(seen);
        }
        if (v.reason == nullptr) {
            CHECK(seen.server.what.empty());
            CHECK(heard.what.empty());
            CHECK(seen.server.stream.peer_certificate().empty() == (v.who == nullptr));
            CHECK(seen.server.stream.peer_subject().empty() == (v.who == nullptr));
            co_return;
        }
        CHECK(seen.server.reason == v.reason);
        CHECK(seen.server.verification == v.verification);
        CHECK(heard.reason.find("alert") != std::string::npos);
    };
    r.run(scenario());
}

TEST_CASE("bytes that are no TLS are refused at once", "[net][tls]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(trusting());
    const auto scenario = [&]() -> rl::task<void> {
        auto http = co_await connected();
        co_await http.near.write_all("GET / HTTP/1.1\r\nHost: server.test\r\n\r\n");
        outcome seen = co_await outcome_of(tls_stream::accept(server, std::move(http.far)));
        CHECK(seen.reason == "http request");
        auto noise = co_await connected();
        co_await noise.near.write_all(pattern(1000));
        seen = co_await outcome_of(tls_stream::accept(server, std::move(noise.far)));
        CHECK(seen.reason == "wrong version number");
        auto greeting = co_await connected();
        co_await greeting.far.write_all("220 mail.test ESMTP ready\r\n");
        seen = co_await outcome_of(
            tls_stream::connect(client, std::move(greeting.near), "server.test"));
        CHECK(seen.reason == "wrong version number");
        CHECK(seen.host == "server.test");
        auto goodbye = co_await connected();  // a close_notify in place of a hello
        co_await goodbye.far.write_all(std::string_view("\x15\x03\x03\x00\x02\x01\x00", 7));
        seen = co_await outcome_of(
            tls_stream::connect(client, std::move(goodbye.near), "server.test"));
        CHECK(seen.cut);
    };
    r.run(scenario());
}

TEST_CASE("TLS 1.1 is refused, 1.2 unless it is forbidden", "[net][tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto scenario = [&]() -> rl::task<void> {
        auto strict = serving();
        strict.minimum = tls_version::v1_3;
        const auto modern = tls_context::server(strict);
        const auto usual = tls_context::server(serving());
        struct attempt {
            const tls_context& server;
            int version;
            bool well;
        };
        const std::array<attempt, 3> all = {attempt{usual, TLS1_1_VERSION, false},
                                            attempt{usual, TLS1_2_VERSION, true},
                                            attempt{modern, TLS1_2_VERSION, false}};
        for (const attempt& each : all) {
            auto pair = co_await connected();
            raw_peer peer(std::move(pair.near), false);
            peer.limit_to(each.version);
            auto both = co_await rl::when_all(
                outcome_of(peer.handshake()),
                outcome_of(tls_stream::accept(each.server, std::move(pair.far))));
            CHECK(std::get<0>(both).well() == each.well);
            CHECK(std::get<1>(both).well() == each.well);
            if (each.well) {
                CHECK(std::get<1>(both).stream.version() == "TLSv1.2");
            } else {
                CHECK(std::get<1>(both).reason == "unsupported protocol");
            }
        }
    };
    r.run(scenario());
}

TEST_CASE("calls that make no sense are refused", "[net][tls]") {
    runner r(rl::testing::all_bodies().back());
    const auto server = tls_context::server(serving());
    const auto client = tls_context::client(trusting());
    int refused = 0;
    const auto expect_refusal = [&](auto make) {
        try {
            static_cast<void>(make());
        } catch (const std::invalid_argument&) {
            ++refused;
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        std::array<stream_pair, 5> pairs;
        for (auto& pair : pairs) pair = co_await connected();
        expect_refusal([&] { return tls_stream::connect(client, std::move(pairs[0].near), ""); });
        expect_refusal([&] {
            return tls_stream::connect(client, std::move(pairs[1].near),
                                       std::string_view("server.test\0.evil.test", 22));
        });
        expect_refusal([&] {
            return tls_stream::connect(client, std::move(pairs[2].near), std::string(300, 'x'));
        });
        expect_refusal([&] { return tls_stream::connect(server, std::move(pairs[3].near), "x"); });
        expect_refusal([&] { return tls_stream::accept(client, std::move(pairs[4].near)); });
        for (auto& pair : pairs) co_await expect_end(pair.far);  // closed all the same
    };
    r.run(scenario());
    CHECK(refused == 5);
    CHECK_THROWS_AS(tls_stream().read_some({}), std::logic_error);
}

TEST_CASE("contexts say what is wrong with their files and options", "[net][tls]") {
    const auto& made = tls_certificates::get();
    auto server = serving();
    server.certificate_file = "/nowhere/at/all.pem";
    rl::error seen = error_of([&] { return tls_context::server(server); });
    CHECK(seen.code() == std::errc::no_such_file_or_directory);
    CHECK(std::string(seen.what()).find("/nowhere/at/all.pem") != std::string::npos);

    const std::string text = made.folder + "/text";
    std::ofstream(text) << "no certificate\n";
    server.certificate_file = text;
    seen = error_of([&] { return tls_context::server(server); });
    CHECK(seen.code().message() == "no start line");

    server = serving();
    server.key_file = made.client.key;
    seen = error_of([&] { return tls_context::server(server); });
    CHECK(seen.code().message() == "key values mismatch");

    server.key_file = made.encrypted_key;  // nobody is asked for a password
    CHECK_THROWS_AS(tls_context::server(server), tls_error);

    auto client = trusting();
    client.ca_file = "/nowhere";
    CHECK_THROWS_AS(tls_context::client(client), rl::error);
    client = trusting();
    client.ca_directory = "/nowhere";
    seen = error_of([&] { return tls_context::client(client); });
    CHECK(seen.code() == std::errc::no_such_file_or_directory);
    client.ca_directory = text;
    seen = error_of([&] { return tls_context::client(client); });
    CHECK(seen.code() == std::errc::not_a_directory);

    client = trusting();
    client.certificate_file = made.client.certificate;
    CHECK_THROWS_AS(tls_context::client(client), std::invalid_argument);
    client = trusting();
    client.alpn = {""};
    CHECK_THROWS_AS(tls_context::client(client), std::invalid_argument);
    server = serving();
    server.key_file.clear();
    CHECK_THROWS_AS(tls_context::server(server), std::invalid_argument);
    server = serving();
    server.client_certificate = tls_client_certificate::required;
    CHECK_THROWS_AS(tls_context::server(server), std::invalid_argument);
    server = serving();
    server.client_ca_file = made.authority;
    CHECK_THROWS_AS(tls_context::server(server), std::invalid_argument);
}
