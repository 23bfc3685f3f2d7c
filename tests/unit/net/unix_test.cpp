// Unix sockets: streams, descriptors that travel over them, listeners and their paths.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

using rl::net::unix_endpoint;
using rl::net::unix_listener;
using rl::net::unix_seqpacket;
using rl::net::unix_seqpacket_listener;
using rl::net::unix_stream;

struct folder {
    folder() {
        std::string name = "/tmp/ringloop-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~folder() { std::filesystem::remove_all(path); }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    std::filesystem::path path;
    [[nodiscard]] unix_endpoint at(const char* name) const {
        return unix_endpoint((path / name).string());
    }
};

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

}  // namespace

TEST_CASE("an echo over a Unix socket, by path and by abstract name", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    const bool abstract = GENERATE(false, true);
    CAPTURE(body, abstract);
    const folder where;
    runner r(body);
    const unix_endpoint at =
        abstract ? unix_endpoint(std::string(1, '\0') + where.path.string()) : where.at("s");
    const auto serve = [](unix_listener& listener) -> rl::task<void> {
        auto stream = co_await listener.accept();
        while (auto chunk = co_await stream.receive()) co_await stream.write_all(chunk.bytes());
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_listener::bind(at);
        CHECK(listener.local() == at);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(serve(listener));
            auto stream = co_await unix_stream::connect(at);
            CHECK(stream.peer() == at);
            CHECK(stream.local().path().empty());
            co_await stream.write_all("over a path");
            const auto chunk = co_await stream.receive();
            CHECK(chunk.text() == "over a path");
            stream.shutdown(rl::net::direction::send);
            const auto end = co_await stream.receive();
            CHECK_FALSE(end);
        });
    };
    r.run(scenario());
    CHECK(std::filesystem::is_empty(where.path));
}

TEST_CASE("open descriptors travel over a Unix stream", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder where;
    std::ofstream(where.path / "a") << "first";
    std::ofstream(where.path / "b") << "second";
    runner r(body);
    std::string read;
    const auto give = [&](unix_listener& listener) -> rl::task<void> {
        auto stream = co_await listener.accept();
        auto a = co_await rl::fs::open(where.path / "a");
        auto b = co_await rl::fs::open(where.path / "b");
        const std::array<int, 2> both{a.native_handle(), b.native_handle()};
        const std::size_t sent = co_await stream.send_with(bytes_of("two"), both);
        CHECK(sent == 3);
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_listener::bind(where.at("s"));
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(give(listener));
            auto stream = co_await unix_stream::connect(where.at("s"));
            std::array<std::byte, 16> buffer{};
            auto got = co_await stream.receive_with(buffer);
            CHECK(got.size == 3);
            CHECK(got.descriptors.size() == 2);
            for (auto& each : got.descriptors) {
                const rl::fs::file file(r.home, each.release());
                const std::size_t size = co_await file.read_at(buffer, 0);
                read += text_of(std::span(buffer).first(size));
            }
            const auto end = co_await stream.receive_with(buffer);
            CHECK(end.size == 0);
        });
    };
    r.run(scenario());
    CHECK(read == "firstsecond");
}

TEST_CASE("descriptors that nobody takes are closed, and a stopped wait loses none", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder where;
    runner r(body);
    bool stopped = false;
    const auto wait = [&](unix_stream& stream) -> rl::task<void> {
        std::array<std::byte, 1> buffer{};
        try {
            static_cast<void>(co_await stream.receive_with(buffer));
        } catch (const rl::operation_cancelled&) {
            stopped = true;
            throw;
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_listener::bind(where.at("s"));
        auto near = co_await unix_stream::connect(where.at("s"));
        auto far = co_await listener.accept();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(wait(far));
            co_await rl::sleep_for(std::chrono::milliseconds(2));
            group.cancel();
        });
        const std::array<int, 1> one{listener.native_handle()};
        co_await near.send_with(bytes_of("x"), one);
        std::array<std::byte, 8> buffer{};
        const auto got = co_await far.receive_with(buffer);
        CHECK(got.descriptors.size() == 1);
    };
    r.run(scenario());
    CHECK(stopped);
}

TEST_CASE("messages keep their bounds and their order, carry descriptors, and end", "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder where;
    std::ofstream(where.path / "a") << "inside";
    runner r(body);
    const auto serve = [&](unix_seqpacket_listener& listener) -> rl::task<void> {
        auto peer = co_await listener.accept();
        std::array<std::byte, 100'000> buffer{};
        auto got = co_await peer.receive(buffer);
        while (got.size != 0) {
            CHECK_FALSE(got.truncated);
            std::vector<int> fds;
            for (const auto& each : got.descriptors) fds.push_back(each.native_handle());
            co_await peer.send(std::span(buffer).first(got.size), fds);
            got = co_await peer.receive(buffer);
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_seqpacket_listener::bind(where.at("s"));
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(serve(listener));
            auto peer = co_await unix_seqpacket::connect(where.at("s"));
            CHECK(peer.peer() == where.at("s"));
            CHECK(peer.local() == unix_endpoint());
            const std::string large = pattern(60'000);
            const auto file = co_await rl::fs::open(where.path / "a");
            const std::array<int, 1> one{file.native_handle()};
            co_await peer.send(bytes_of("first"));
            co_await peer.send(bytes_of(large), one);
            co_await peer.send(bytes_of("third"));
            std::vector<std::byte> buffer(80'000);
            auto got = co_await peer.receive(buffer);
            CHECK(text_of(std::span(buffer).first(got.size)) == "first");
            got = co_await peer.receive(buffer);
            CHECK(text_of(std::span(buffer).first(got.size)) == large);
            CHECK(got.descriptors.size() == 1);
            std::array<std::byte, 16> content{};
            const rl::fs::file same(r.home, got.descriptors.at(0).release());
            const std::size_t size = co_await same.read_at(content, 0);
            CHECK(text_of(std::span(content).first(size)) == "inside");
            got = co_await peer.receive(std::span(buffer).first(2));
            CHECK(got.size == 2);
            CHECK(got.truncated);
            peer.shutdown(rl::net::direction::send);
            got = co_await peer.receive(buffer);
            CHECK(got.size == 0);
        });
    };
    r.run(scenario());
    std::filesystem::remove(where.path / "a");
    CHECK(std::filesystem::is_empty(where.path));
}

TEST_CASE("a message waits for room, a stopped wait loses none, an empty one is refused",
          "[unix]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder where;
    runner r(body);
    const std::string text = pattern(50'000);
    int sent = 0, stopped = 0;
    const auto send_many = [&](unix_seqpacket& peer, int count) -> rl::task<void> {
        for (; count > 0; --count, ++sent) co_await peer.send(bytes_of(text));
    };
    const auto receive_one = [&](unix_seqpacket& peer) -> rl::task<void> {
        std::array<std::byte, 8> buffer{};
        try {
            static_cast<void>(co_await peer.receive(buffer));
        } catch (const rl::operation_cancelled&) {
            ++stopped;
        }
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_seqpacket_listener::bind(where.at("s"));
        auto near = co_await unix_seqpacket::connect(where.at("s"));
        auto far = co_await listener.accept();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(receive_one(far));
            co_await rl::yield();
            group.cancel();
        });
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(send_many(near, 50));
            std::vector<std::byte> buffer(text.size());
            for (int i = 0; i < 50; ++i) {
                const auto got = co_await far.receive(buffer);
                CHECK(got.size == text.size());
            }
        });
        int refused = 0;
        try {
            co_await near.send({});
        } catch (const std::invalid_argument&) {
            ++refused;
        }
        unix_seqpacket other(r.home, near.release());  // handed over
        CHECK_FALSE(near);
        far.close();
        try {
            co_await other.send(bytes_of("x"));
        } catch (const rl::error& e) {
            if (e.code() == std::errc::broken_pipe) ++refused;
        }
        CHECK(refused == 2);
    };
    r.run(scenario());
    CHECK(sent == 50);
    CHECK(stopped == 1);
}

TEST_CASE("what cannot be sent with descriptors is refused", "[unix]") {
    const folder where;
    runner r(rl::testing::real_bodies().back());
    const auto scenario = [&]() -> rl::task<void> {
        auto listener = unix_listener::bind(where.at("s"));
        auto stream = co_await unix_stream::connect(where.at("s"));
        const std::vector<int> many(254, 0);
        for (const auto& [bytes, fds] : {std::pair{bytes_of(""), std::span<const int>()},
                                         std::pair{bytes_of("x"), std::span<const int>(many)}}) {
            bool refused = false;
            try {
                co_await stream.send_with(bytes, fds);
            } catch (const std::invalid_argument&) {
                refused = true;
            }
            CHECK(refused);
        }
    };
    r.run(scenario());
}

TEST_CASE("a listener's path: in the way, replaced, kept, somebody else's", "[unix]") {
    const folder where;
    runner r(rl::testing::real_bodies().back());
    const auto scenario = [&]() -> rl::task<void> {
        const auto at = where.at("s");
        {
            auto first = unix_listener::bind(at, {.keep_path = true});
            CHECK_THROWS_AS(unix_listener::bind(at), rl::error);
        }
        CHECK(std::filesystem::exists(at.path()));
        {
            auto second = unix_listener::bind(at, {.replace = true});
            auto third = unix_listener::bind(at, {.replace = true, .keep_path = true});
            second.close();  // the path is the third's by now
            CHECK(std::filesystem::exists(at.path()));
            auto stream = co_await unix_stream::connect(at);
            auto accepted = co_await third.accept();
        }
        std::filesystem::remove(at.path());
        std::ofstream(at.path()) << "a file";
        CHECK_THROWS_AS(unix_listener::bind(at, {.replace = true}), rl::error);
        CHECK(std::filesystem::is_regular_file(at.path()));
    };
    r.run(scenario());
}

TEST_CASE("a Unix socket's address: too long, a null inside, printed", "[unix]") {
    CHECK_THROWS_AS(unix_endpoint(std::string(108, 'x')), std::invalid_argument);
    CHECK_THROWS_AS(unix_endpoint(std::string_view("a\0b", 3)), std::invalid_argument);
    CHECK(unix_endpoint(std::string(107, 'x')).path().size() == 107);
    CHECK(unix_endpoint(std::string_view("\0name", 5)).to_string() == "@name");
    CHECK(unix_endpoint().to_string() == "(no name)");
    CHECK_FALSE(unix_endpoint("/run/x") == unix_endpoint());
}
