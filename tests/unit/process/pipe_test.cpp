// Pipes: bytes, the end, a reader that has gone, cancels; descriptors that somebody else has made.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

rl::task<void> write_and_close(rl::pipe_writer& writer, std::string_view text) {
    co_await writer.write_all(text);
    writer.close();
}

}  // namespace

TEST_CASE("what goes into a pipe comes out of it, and then its end", "[pipe]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string text = pattern(300'000);  // several times what a pipe holds
    std::string read;
    const auto scenario = [&]() -> rl::task<void> {
        rl::pipe_ends ends = rl::make_pipe();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(write_and_close(ends.writer, text));
            read = co_await ends.reader.read_all();
        });
        std::array<std::byte, 4> part{};
        const std::size_t end = co_await ends.reader.read_some(part);
        CHECK(end == 0);
        CHECK_FALSE(ends.writer);
    };
    r.run(scenario());
    CHECK(read == text);
}

TEST_CASE("writing to a pipe that nobody reads is an error and no signal", "[pipe]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    // The test ends here if the signal comes: its disposition is the default.
    struct sigaction usual {};
    struct sigaction before {};
    sigaction(SIGPIPE, &usual, &before);
    int at_once = 0;
    int while_waiting = 0;
    const auto leave = [](rl::pipe_reader& reader) -> rl::task<void> {
        co_await rl::yield();
        reader.close();
    };
    const auto scenario = [&]() -> rl::task<void> {
        rl::pipe_ends ends = rl::make_pipe();
        const std::string much = pattern(300'000);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(leave(ends.reader));
            while_waiting = co_await error_of(ends.writer.write_all(much));
        });
        at_once = co_await error_of(ends.writer.write_all("x"));
    };
    r.run(scenario());
    sigaction(SIGPIPE, &before, nullptr);
    CHECK(while_waiting == EPIPE);
    CHECK(at_once == EPIPE);
}

TEST_CASE("a stopped read or write of a pipe loses nothing", "[pipe][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    std::string read;
    std::size_t written = 0;
    const auto scenario = [&]() -> rl::task<void> {
        rl::pipe_ends ends = rl::make_pipe();
        std::array<std::byte, 100> part{};
        const auto read_once = [&]() -> rl::task<void> {
            static_cast<void>(co_await ends.reader.read_some(part));
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(read_once());
            co_await rl::yield();
            group.cancel();
        });
        // Full, by writes of which the last is stopped as it waits.
        const std::string piece = pattern(1000);
        const auto fill = [&]() -> rl::task<void> {
            while (true) written += co_await ends.writer.write_some(bytes_of(piece));
        };
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(fill());
            co_await rl::yield();
            group.cancel();
        });
        ends.writer.close();
        read = co_await ends.reader.read_all();
    };
    r.run(scenario());
    CHECK(written >= 4096);
    CHECK(read.size() == written);
}

TEST_CASE("a pipe's end that somebody else has made non-blocking is waited for", "[pipe]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    const std::string text = pattern(200'000);
    std::string read;
    const auto scenario = [&]() -> rl::task<void> {
        std::array<int, 2> fds{};
        REQUIRE(pipe2(fds.data(), O_NONBLOCK | O_CLOEXEC) == 0);
        rl::pipe_reader reader(r.home, fds[0]);
        rl::pipe_writer writer(r.home, fds[1]);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(write_and_close(writer, text));
            read = co_await reader.read_all();
        });
    };
    r.run(scenario());
    CHECK(read == text);
}

TEST_CASE("a terminal is written to as a pipe is", "[pipe]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    std::string read;
    const auto scenario = [&]() -> rl::task<void> {
        rl::pipe_reader master(r.home, posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        REQUIRE(grantpt(master.native_handle()) == 0);
        REQUIRE(unlockpt(master.native_handle()) == 0);
        rl::pipe_writer terminal(
            r.home, ::open(ptsname(master.native_handle()), O_RDWR | O_NOCTTY | O_CLOEXEC));
        REQUIRE(terminal);
        co_await terminal.write_all("hello");
        std::array<std::byte, 16> part{};
        const std::size_t count = co_await master.read_some(part);
        read = text_of(std::span(part).first(count));
    };
    r.run(scenario());
    CHECK(read == "hello");
}

TEST_CASE("a closed end refuses, nothing to move is no error", "[pipe]") {
    runner r(rl::testing::real_bodies().back());
    const auto scenario = [&]() -> rl::task<void> {
        rl::pipe_ends ends = rl::make_pipe();
        const std::size_t none = co_await ends.reader.read_some({});
        CHECK(none == 0);
        co_await ends.writer.write_all("");
        rl::pipe_writer moved = std::move(ends.writer);
        bool refused = false;
        try {
            co_await ends.writer.write_all("x");
        } catch (const std::logic_error&) {
            refused = true;
        }
        CHECK(refused);
        CHECK(moved);
    };
    r.run(scenario());
}
