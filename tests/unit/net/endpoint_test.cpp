// Numeric addresses: parsing, printing, refusing.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "ringloop/net/endpoint.hpp"

using ringloop::net::endpoint;

TEST_CASE("an address is printed as it was parsed", "[endpoint]") {
    CHECK(endpoint("127.0.0.1", 80).to_string() == "127.0.0.1:80");
    CHECK(endpoint("::1", 65535).to_string() == "[::1]:65535");
    CHECK(endpoint("fe80::1%2", 1).to_string() == "[fe80::1%2]:1");
    CHECK(endpoint().to_string() == "0.0.0.0:0");
}

TEST_CASE("an endpoint survives the way through a socket address", "[endpoint]") {
    for (const char* text : {"10.1.2.3", "::", "2001:db8::5", "fe80::1%7"}) {
        const endpoint e(text, 4711);
        CHECK(endpoint(e.address(), e.size()) == e);
        CHECK(e.port() == 4711);
        CHECK_FALSE(e == endpoint(text, 4712));
    }
    CHECK_FALSE(endpoint("::1", 1) == endpoint("127.0.0.1", 1));
}

TEST_CASE("what is not a numeric address is refused with the text in the message", "[endpoint]") {
    for (const char* text : {"", "localhost", "127.0.0.1.5", "127.0.0", "127.0.0.1%2", "::1%",
                             "::1%eth0", "fe80::1%2x", ":::", "1::2::3", "300.1.1.1",
                             "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH(endpoint(text, 1), Catch::Contains(std::string("'") + text + "'"));
    }
    const sockaddr unknown{};
    CHECK_THROWS_AS(endpoint(&unknown, sizeof unknown), std::invalid_argument);
}
