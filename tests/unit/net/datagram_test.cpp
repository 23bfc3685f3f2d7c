// UDP and Unix datagrams: whole messages, batches, errors of the network, stops.
#include <array>
#include <cstring>
#include <filesystem>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

using rl::net::endpoint;
using rl::net::udp_socket;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("a datagram comes whole, with its sender, and may be answered", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        auto server = udp_socket::bind({"127.0.0.1", 0});
        auto client = udp_socket::bind({"127.0.0.1", 0});
        std::array<std::byte, 64> buffer{};
        co_await client.send_to(bytes_of("question"), server.local());
        const auto got = co_await server.receive_from(buffer);
        CHECK(text_of(std::span(buffer).first(got.size)) == "question");
        CHECK(got.from == client.local());
        CHECK_FALSE(got.truncated);
        co_await server.send_to(bytes_of("answer"), got.from);
        const auto back = co_await client.receive_from(buffer);
        CHECK(text_of(std::span(buffer).first(back.size)) == "answer");
        co_await client.send_to({}, server.local());
        const auto empty = co_await server.receive_from(buffer);
        CHECK(empty.size == 0);
        co_await client.send_to(bytes_of("too long for it"), server.local());
        const auto cut = co_await server.receive_from(std::span(buffer).first(4));
        CHECK(cut.size == 4);
        CHECK(cut.truncated);
    };
    r.run(scenario());
}

TEST_CASE("segments arrive as messages of their own, whoever cuts them", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    // One message; some, the last short; more than the kernel takes at once; none.
    const auto [size, segment] =
        GENERATE(std::pair{90U, 100U}, std::pair{950U, 100U}, std::pair{6'590U, 100U},
                 std::pair{0U, 100U}, std::pair{7'000U, 3'000U});
    CAPTURE(size, segment);
    const std::string text = pattern(size);
    const std::string large = pattern(66'000);
    const auto scenario = [&, size = size, segment = segment]() -> rl::task<void> {
        auto server = udp_socket::bind({"127.0.0.1", 0});
        server.set_option(SOL_SOCKET, SO_RCVBUF, 4 << 20);
        auto client = udp_socket::bind({"127.0.0.1", 0});
        co_await client.send_segments(bytes_of(text), segment, server.local());
        co_await client.send_to(bytes_of("end"), server.local());
        std::vector<std::byte> buffer(65'536);
        std::string got;
        while (true) {
            const auto one = co_await server.receive_from(buffer);
            CHECK(one.segment == one.size);
            const auto bytes = std::span(buffer).first(one.size);
            if (text_of(bytes) == "end") break;
            CHECK(one.size == std::min<std::size_t>(segment, size - got.size()));
            got += text_of(bytes);
        }
        CHECK((got == text));
        int refused = 0;
        try {
            co_await client.send_segments(bytes_of("x"), 0, server.local());
        } catch (const std::invalid_argument&) {
            ++refused;
        }
        try {
            co_await client.send_segments(bytes_of(large), 66'000, server.local());
        } catch (const rl::error& e) {
            if (e.code() == std::errc::message_size) ++refused;
        }
        CHECK(refused == 2);
    };
    r.run(scenario());
}

TEST_CASE("messages that came as one tell how they are to be cut", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string text = pattern(4'050);
    std::size_t calls = 0;
    const auto scenario = [&]() -> rl::task<void> {
        auto server = udp_socket::bind({"127.0.0.1", 0});
        const bool joins = server.join_received();
        CHECK(joins == (body.kind != rl::backend::fake));
        auto client = udp_socket::bind({"127.0.0.1", 0});
        co_await client.send_segments(bytes_of(text), 100, server.local());
        std::vector<std::byte> buffer(65'536);
        std::string got;
        for (; got.size() < text.size(); ++calls) {
            const auto some = co_await server.receive_from(buffer);
            CHECK_FALSE(some.truncated);
            CHECK(some.segment == std::min<std::size_t>(100, text.size() - got.size()));
            got += text_of(std::span(buffer).first(some.size));
        }
        CHECK((got == text));
        co_await client.send_to(bytes_of("single"), server.local());
        const auto one = co_await server.receive_from(buffer);
        CHECK(one.segment == 6);
        if (joins) CHECK(calls < 41);
    };
    r.run(scenario());
}

TEST_CASE("segments and joined messages over Unix sockets are plain ones", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const rl::net::unix_endpoint at(std::string_view("\0ringloop-segments", 18));
        auto server = rl::net::unix_datagram::bind(at);
        auto client = rl::net::unix_datagram::bind(rl::net::unix_endpoint());
        CHECK_FALSE(server.join_received());
        co_await client.send_segments(bytes_of("aabbc"), 2, at);
        std::array<std::byte, 16> buffer{};
        const std::array<std::string_view, 3> all{"aa", "bb", "c"};
        for (const std::string_view expected : all) {
            const auto got = co_await server.receive_from(buffer);
            CHECK(text_of(std::span(buffer).first(got.size)) == expected);
            CHECK(got.segment == got.size);
        }
    };
    r.run(scenario());
}

TEST_CASE("a receive waits until a datagram comes; a stop loses none", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::string log;
    const auto receive = [&](udp_socket& from) -> rl::task<void> {
        std::array<std::byte, 16> buffer{};
        const auto got = co_await from.receive_from(buffer);
        log += text_of(std::span(buffer).first(got.size));
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto server = udp_socket::bind({"127.0.0.1", 0});
        auto client = udp_socket::bind({"127.0.0.1", 0});
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(receive(server));
            co_await rl::sleep_for(std::chrono::milliseconds(2));
            group.cancel();
        });
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(receive(server));
            co_await rl::sleep_for(std::chrono::milliseconds(2));
            co_await client.send_to(bytes_of("late"), server.local());
        });
    };
    r.run(scenario());
    CHECK(log == "late");
}

TEST_CASE("batches keep their order and may be larger than a system call's", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        auto server = udp_socket::bind({"127.0.0.1", 0});
        auto client = udp_socket::bind({"127.0.0.1", 0});
        constexpr std::size_t count = 100;
        std::vector<std::uint32_t> numbers(count);
        std::vector<udp_socket::outgoing> out;
        for (std::size_t i = 0; i < count; ++i) {
            numbers[i] = static_cast<std::uint32_t>(i);
            out.push_back({std::as_bytes(std::span(&numbers[i], 1)), server.local()});
        }
        co_await client.send_many(out);
        std::array<std::array<std::byte, 16>, 70> memory{};
        std::vector<udp_socket::incoming> in;
        for (auto& each : memory) in.push_back({each});
        std::size_t seen = 0;
        while (seen < count) {
            const std::size_t got = co_await server.receive_many(in);
            CHECK(got <= udp_socket::batch_max);
            for (std::size_t i = 0; i < got; ++i, ++seen) {
                std::uint32_t number = 0;
                CHECK(in[i].got.size == sizeof number);
                std::memcpy(&number, in[i].buffer.data(), sizeof number);
                CHECK(number == seen);
            }
        }
        const std::size_t none = co_await server.receive_many({});
        CHECK(none == 0);
    };
    r.run(scenario());
}

TEST_CASE("a connected socket hears that nobody is there, and goes on", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        endpoint gone;
        {
            auto was = udp_socket::bind({"127.0.0.1", 0});
            gone = was.local();
        }
        auto client = co_await udp_socket::connect(gone);
        co_await client.send(bytes_of("anybody?"));
        int error = 0;
        std::array<std::byte, 16> buffer{};
        try {
            co_await client.receive_from(buffer);
        } catch (const rl::error& failure) {
            error = failure.code().value();
        }
        CHECK(error == ECONNREFUSED);
        auto back = udp_socket::bind(gone);
        co_await client.send(bytes_of("again"));
        const auto got = co_await back.receive_from(buffer);
        CHECK(got.size == 5);
    };
    r.run(scenario());
}

TEST_CASE("a datagram that is too long is refused; a closed socket says so", "[udp]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        auto client = udp_socket::bind({"127.0.0.1", 0});
        const std::vector<std::byte> large(70'000);
        int error = 0;
        try {
            co_await client.send_to(large, client.local());
        } catch (const rl::error& failure) {
            error = failure.code().value();
        }
        CHECK(error == EMSGSIZE);
        client.close();
        CHECK_FALSE(client);
        CHECK_THROWS_AS(client.local(), std::logic_error);
    };
    r.run(scenario());
}

TEST_CASE("Unix datagrams know their sender by its path", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    std::string name = "/tmp/ringloop-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        auto server = rl::net::unix_datagram::bind(rl::net::unix_endpoint(name + "/s"));
        auto client = rl::net::unix_datagram::bind(rl::net::unix_endpoint(name + "/c"));
        std::array<std::byte, 16> buffer{};
        co_await client.send_to(bytes_of("hello"), server.local());
        const auto got = co_await server.receive_from(buffer);
        CHECK(got.from.path() == name + "/c");
        auto nameless = co_await rl::net::unix_datagram::connect(server.local());
        co_await nameless.send(bytes_of("who?"));
        const auto anonymous = co_await server.receive_from(buffer);
        CHECK(anonymous.from.path().empty());
    };
    r.run(scenario());
    std::filesystem::remove_all(name);
}
