// Files over streams: contents, ends, errors, stops.
#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace fs = rl::fs;

namespace {

rl::task<void> write(const std::filesystem::path& path, const std::string& text) {
    auto file = co_await fs::open(path, O_WRONLY | O_CREAT, 0600);
    std::size_t done = 0;
    while (done < text.size()) {
        done += co_await file.write_at(std::as_bytes(std::span(text)).subspan(done),
                                       static_cast<std::int64_t>(done));
    }
}

}  // namespace

TEST_CASE("a part of a file goes over a stream, and as much as there is", "[net][fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const std::filesystem::path path = home.file_on(body);
    const std::string text = pattern(5'000'000);
    const auto send = [&](rl::net::tcp_stream& stream) -> rl::task<void> {
        auto file = co_await fs::open(path);
        co_await stream.write_all("head ");
        const std::uint64_t part = co_await stream.send_file(file, 1000, 4'000'000);
        CHECK(part == 4'000'000);
        const std::uint64_t rest = co_await stream.send_file(file, 4'999'990, 1000);
        CHECK(rest == 10);
        const std::uint64_t none = co_await stream.send_file(file, 6'000'000, 1000);
        CHECK(none == 0);
        const std::uint64_t nothing = co_await stream.send_file(file, 0, 0);
        CHECK(nothing == 0);
        stream.shutdown(rl::net::direction::send);
    };
    const auto scenario = [&]() -> rl::task<void> {
        co_await write(path, text);
        auto pair = co_await connected();
        std::string got;
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(send(pair.near));
            got = co_await read_all(pair.far);
        });
        CHECK((got == "head " + text.substr(1000, 4'000'000) + text.substr(4'999'990)));
    };
    r.run(scenario());
}

TEST_CASE("a file that the kernel does not move by itself is sent all the same", "[net][fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const std::string name = co_await fs::read_file("/proc/sys/kernel/ostype");
        auto release = co_await fs::open("/proc/sys/kernel/ostype");
        auto pair = co_await connected();
        const std::uint64_t sent = co_await pair.near.send_file(release, 0, 1 << 20);
        CHECK(sent == name.size());
        pair.near.close();
        const std::string got = co_await read_all(pair.far);
        CHECK(got == name);
    };
    r.run(scenario());
}

TEST_CASE("what cannot be sent of a file is said, and one writes at a time", "[net][fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        co_await write(home / "data", pattern(30'000'000));
        auto file = co_await fs::open(home / "data");
        auto pair = co_await connected();
        int refused = 0;
        bool stopped = false;
        try {
            static_cast<void>(co_await pair.near.send_file(file, -1, 10));
        } catch (const std::invalid_argument&) {
            ++refused;
        }
        const fs::file closed;
        try {
            static_cast<void>(co_await pair.near.send_file(closed, 0, 10));
        } catch (const std::logic_error&) {
            ++refused;
        }
        const auto send = [&]() -> rl::task<void> {
            try {
                static_cast<void>(co_await pair.near.send_file(file, 0, 30'000'000));
            } catch (const rl::operation_cancelled&) {
                stopped = true;
                throw;
            }
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(send());
            co_await rl::sleep_for(std::chrono::milliseconds(20));  // the peer reads nothing
            try {
                co_await pair.near.write_all("x");
            } catch (const std::logic_error&) {
                ++refused;
            }
            group.cancel();
        });
        CHECK(stopped);
        pair.near.shutdown(rl::net::direction::send);
        try {
            static_cast<void>(co_await pair.near.send_file(file, 0, 1'000'000));
        } catch (const rl::error& e) {
            if (e.code() == std::errc::broken_pipe) ++refused;
        }
        CHECK(refused == 4);
    };
    r.run(scenario());
}
