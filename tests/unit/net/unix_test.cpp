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
