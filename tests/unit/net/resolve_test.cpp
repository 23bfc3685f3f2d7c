// Names and happy eyeballs: numeric addresses without a thread, failures, head starts, stops.
#include <netdb.h>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

using rl::net::endpoint;
using rl::net::tcp_listener;

// Of a port on which nobody listens any more.
endpoint closed_port() {
    return tcp_listener::bind({"127.0.0.1", 0}).local();
}

// No braces around a list within a coroutine: g++ 12 rejects them.
std::vector<endpoint> both(const endpoint& first, const endpoint& second) {
    return {first, second};
}

}  // namespace

TEST_CASE("a numeric address resolves to itself, on every body", "[resolve]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        const auto four = co_await rl::net::resolve("127.0.0.1", 80);
        CHECK((four.size() == 1 && four[0] == endpoint("127.0.0.1", 80)));
        const auto six = co_await rl::net::resolve("::1", 443);
        CHECK((six.size() == 1 && six[0] == endpoint("::1", 443)));
    };
    r.run(scenario());
}

TEST_CASE("localhost resolves to loopback addresses, each once", "[resolve]") {
    runner r(rl::testing::real_bodies().back());
    const auto found = r.run(rl::net::resolve("localhost", 8080));
    REQUIRE_FALSE(found.empty());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK((found[i] == endpoint("127.0.0.1", 8080) || found[i] == endpoint("::1", 8080)));
        for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(found[i] == found[j]);
    }
}

TEST_CASE("a name that nobody has is an error that says so", "[resolve]") {
    runner r(rl::testing::real_bodies().back());
    for (const std::string name : {"", "no-such-host.invalid"}) {
        CAPTURE(name);
        int code = 0;
        try {
            r.run(rl::net::resolve(name, 80));
        } catch (const rl::net::resolve_error& failure) {
            code = failure.code();
            CHECK(std::string(failure.what()).find("'" + name + "'") != std::string::npos);
        }
        CHECK((code == EAI_NONAME || code == EAI_AGAIN || code == EAI_NODATA));
    }
}

TEST_CASE("a stopped lookup ends at once; what it finds is dropped", "[resolve]") {
    runner r(rl::testing::real_bodies().back());
    bool stopped = false;
    const auto descriptors = rl::testing::open_descriptors();
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.cancel();
            try {
                co_await rl::net::resolve("localhost", 80);
            } catch (const rl::operation_cancelled&) {
                stopped = true;
            }
        });
        for (int i = 0; i < 50; ++i) {
            co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
                group.spawn(
                    []() -> rl::task<void> { co_await rl::net::resolve("localhost", 80); }());
                for (int turns = 0; turns < i % 7; ++turns) co_await rl::yield();
                group.cancel();
            });
        }
        // Those that nobody waits for still look into /etc: they have begun once a later one has
        // ended, and have ended once it stays calm.
        co_await rl::net::resolve("localhost", 80);
        for (int calm = 0, looks = 0; calm < 50 && looks < 6'000; ++looks) {
            co_await rl::sleep_for(5ms);
            calm = rl::testing::open_descriptors() == descriptors ? calm + 1 : 0;
        }
    };
    r.run(scenario());
    CHECK(stopped);
}

TEST_CASE("connect() takes the next address when the first one refuses", "[connect]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = tcp_listener::bind({"127.0.0.1", 0});
        const std::int64_t begin = r.home.now_ns();
        auto stream =
            co_await rl::net::connect(both(closed_port(), listener.local()), {.attempt_delay = 1h});
        CHECK(stream.peer() == listener.local());
        CHECK(r.home.now_ns() - begin < 60'000'000'000);
        auto accepted = co_await listener.accept();
    };
    r.run(scenario());
}

TEST_CASE("connect() throws the first failure if all fail, or if there is no address",
          "[connect]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        int error = 0;
        try {
            co_await rl::net::connect(both(closed_port(), closed_port()), {.attempt_delay = 1ms});
        } catch (const rl::error& failure) {
            error = failure.code().value();
        }
        CHECK(error == ECONNREFUSED);
    };
    r.run(scenario());
    CHECK_THROWS_AS(r.run(rl::net::connect(std::vector<endpoint>{})), std::invalid_argument);
}

TEST_CASE("connect() by name, to a server that listens on one family only", "[connect]") {
    runner r(rl::testing::real_bodies().back());
    const auto scenario = []() -> rl::task<void> {
        auto listener = tcp_listener::bind({"127.0.0.1", 0});
        auto stream = co_await rl::net::connect("localhost", listener.local().port());
        CHECK(stream.peer() == listener.local());
        auto accepted = co_await listener.accept();
    };
    r.run(scenario());
}
