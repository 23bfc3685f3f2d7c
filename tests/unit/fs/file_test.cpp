// Files on every body: contents, status, errors, closing, cancel.
#include <array>
#include <string>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

TEST_CASE("what is written at an offset is read there", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const std::string text = pattern(100'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await rl::fs::open(home.path / "data", O_RDWR | O_CREAT, 0600);
        const auto bytes = std::as_bytes(std::span(text));
        const std::size_t written = co_await file.write_at(bytes, 0);
        CHECK(written == text.size());
        co_await file.sync();
        co_await file.sync(true);
        const auto status = co_await file.status();
        CHECK(status.stx_size == text.size());
        const auto by_name = co_await rl::fs::status(home.path / "data");
        CHECK(by_name.stx_ino == status.stx_ino);
        std::array<std::byte, 4096> part{};
        const std::size_t count = co_await file.read_at(part, 50'000);
        CHECK(count == part.size());
        CHECK(text_of(part) == std::string_view(text).substr(50'000, 4096));
        const std::size_t beyond = co_await file.read_at(part, 100'000);
        CHECK(beyond == 0);
        co_await file.close();
        CHECK_FALSE(file);
        CHECK_THROWS_AS(file.read_at(part, 0), std::logic_error);
    };
    r.run(scenario());
}

TEST_CASE("a file is written from pieces of memory and read into others", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const std::filesystem::path path = home.file_on(body);
    const std::string text = pattern(10'000);
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await rl::fs::open(path, O_RDWR | O_CREAT, 0600);
        const auto bytes = std::as_bytes(std::span(text));
        // More pieces than the list holds without memory of its own.
        std::vector<std::span<const std::byte>> from;
        for (std::size_t at = 0; at < bytes.size(); at += 100)
            from.push_back(bytes.subspan(at, 100));
        const std::size_t written = co_await file.write_at(from, 0);
        CHECK(written == text.size());
        std::vector<std::byte> small(10);
        std::vector<std::byte> large(20'000);
        const std::array<std::span<std::byte>, 2> into{small, large};
        const std::size_t count = co_await file.read_at(into, 5);
        CHECK(count == text.size() - 5);
        CHECK(text_of(small) == std::string_view(text).substr(5, 10));
        CHECK(text_of(std::span(large).first(count - 10)) == std::string_view(text).substr(15));
        CHECK_THROWS_AS(file.read_at(into, -1), std::invalid_argument);
    };
    r.run(scenario());
}

TEST_CASE("many reads of one file are under way at once", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const std::string text = pattern(64 * 512);
    int right = 0;
    const auto read = [&](rl::fs::file& file, std::size_t block) -> rl::task<void> {
        std::array<std::byte, 512> part{};
        const std::size_t count = co_await file.read_at(part, static_cast<int>(block) * 512);
        if (count == 512 && text_of(part) == std::string_view(text).substr(block * 512, 512))
            ++right;
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await rl::fs::open(home.path / "data", O_RDWR | O_CREAT, 0600);
        static_cast<void>(co_await file.write_at(std::as_bytes(std::span(text)), 0));
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (std::size_t block = 0; block < 64; ++block) group.spawn(read(file, block));
            co_return;
        });
    };
    r.run(scenario());
    CHECK(right == 64);
}

TEST_CASE("opening a file that is not there says so, with its name", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    const auto scenario = []() -> rl::task<void> {
        auto file = co_await rl::fs::open("/nowhere/at-all");
    };
    try {
        r.run(scenario());
        FAIL("opened");
    } catch (const rl::error& e) {
        CHECK(e.code() == std::errc::no_such_file_or_directory);
        CHECK(std::string(e.what()).find("/nowhere/at-all") != std::string::npos);
    }
}

TEST_CASE("a negative offset is refused at once", "[fs]") {
    runner r(rl::testing::real_bodies().back());
    const folder home;
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await rl::fs::open(home.path / "data", O_RDWR | O_CREAT, 0600);
        std::array<std::byte, 4> part{};
        CHECK_THROWS_WITH(file.read_at(part, -5), Catch::Contains("must not be negative"));
        CHECK_THROWS_AS(file.write_at(part, -1), std::invalid_argument);
    };
    r.run(scenario());
}

TEST_CASE("a read that a stop meets in the kernel ends, its memory unharmed", "[fs][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const std::string text = pattern(1'000'000);
    const auto read = [&](rl::fs::file& file) -> rl::task<void> {
        std::vector<std::byte> all(text.size());
        const std::size_t count = co_await file.read_at(all, 0);
        CHECK(text_of(std::span(all).first(count)) == std::string_view(text).substr(0, count));
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await rl::fs::open(home.path / "data", O_RDWR | O_CREAT, 0600);
        static_cast<void>(co_await file.write_at(std::as_bytes(std::span(text)), 0));
        for (int i = 0; i < 20; ++i) {
            co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
                for (int k = 0; k < 4; ++k) group.spawn(read(file));
                co_await rl::yield();
                group.cancel();
            });
        }
    };
    r.run(scenario());
}
