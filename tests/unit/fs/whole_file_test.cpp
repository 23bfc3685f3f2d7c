// Whole files: reading, writing, copying; holes, links, failures and stops that leave nothing.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

namespace fs = rl::fs;

std::string content(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::string all(std::filesystem::file_size(path), '\0');
    in.read(all.data(), static_cast<std::streamsize>(all.size()));
    return all;
}

std::size_t entries_of(const folder& home) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(home.path))
        ++count;
    return count;
}

rl::task<int> copy_error(std::filesystem::path from, std::filesystem::path to) {
    try {
        co_await fs::copy_file(from, to);
    } catch (const rl::error& e) {
        co_return e.code().value();
    }
    co_return 0;
}

}  // namespace

TEST_CASE("a whole file is written and read back", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const bool simulated = body.kind == rl::backend::fake;
    const std::array<std::size_t, 4> sizes{0, 1, 100'000, 5};
    const std::filesystem::path file = simulated ? "/tmp/file" : home / "file";
    const auto scenario = [&]() -> rl::task<void> {
        for (const std::size_t size : sizes) {
            const std::string text = pattern(size);
            co_await fs::write_file(file, text);
            const std::string read = co_await fs::read_file(file);
            CHECK(read == text);
        }
    };
    r.run(scenario());
}

TEST_CASE("a file that does not know its size is read to its end", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const std::string status = co_await fs::read_file("/proc/self/status");
        CHECK(status.find("nonvoluntary_ctxt_switches") != std::string::npos);
        co_await fs::copy_file("/proc/self/status", home / "status");
    };
    r.run(scenario());
    CHECK(content(home / "status").find("nonvoluntary_ctxt_switches") != std::string::npos);
}

TEST_CASE("a copy has the bytes, the permissions and the holes", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    const std::string text = pattern(100'000);
    constexpr std::uint64_t size = 9'000'000;
    {
        std::ofstream out(home / "from", std::ios::binary);
        out << text;
        out.seekp(6'000'000);
        out << text;
    }
    std::filesystem::resize_file(home / "from", size);
    ::chmod((home / "from").c_str(), 0640);
    std::ofstream(home / "to") << "what was there";
    std::filesystem::create_symlink("to", home / "pointer");
    runner r(body);
    std::vector<std::uint64_t> seen;
    std::uint64_t copied = 0;
    const auto scenario = [&]() -> rl::task<void> {
        copied = co_await fs::copy_file(home / "from", home / "pointer",
                                        [&](std::uint64_t done, std::uint64_t total) {
                                            CHECK(total == size);
                                            seen.push_back(done);
                                        });
    };
    r.run(scenario());
    CHECK(copied == size);
    CHECK(seen.size() >= 2);
    CHECK(seen.back() == size);
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    CHECK(content(home / "to") == content(home / "from"));
    CHECK(std::filesystem::is_symlink(home / "pointer"));
    CHECK(entries_of(home) == 3);
    struct stat from {};
    struct stat to {};
    ::stat((home / "from").c_str(), &from);
    ::stat((home / "to").c_str(), &to);
    CHECK((to.st_mode & 07777) == 0640);
    CHECK(to.st_blocks * 512 < 2'000'000 + from.st_blocks * 512);
}

TEST_CASE("a copy that fails says why and leaves the target alone", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    std::ofstream(home / "from") << "new";
    std::ofstream(home / "to") << "old";
    std::filesystem::create_directory(home / "folder");
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const auto expect = [&](int expected, const char* from, const char* to) -> rl::task<void> {
            const int number = co_await copy_error(home / from, home / to);
            CAPTURE(from, to);
            CHECK(number == expected);
        };
        co_await expect(ENOENT, "none", "to");
        co_await expect(EISDIR, "folder", "to");
        co_await expect(EISDIR, "from", "folder");
        co_await expect(EEXIST, "from", "from");
        co_await expect(ENOENT, "from", "nowhere/to");
        bool thrown = false;
        try {
            co_await fs::copy_file(home / "from", home / "to",
                                   [](std::uint64_t, std::uint64_t) { throw 1; });
        } catch (int) {
            thrown = true;
        }
        CHECK(thrown);
    };
    r.run(scenario());
    CHECK(content(home / "to") == "old");
    CHECK(entries_of(home) == 3);
}

TEST_CASE("a stopped copy leaves no part of it", "[fs][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    std::ofstream(home / "from") << pattern(100'000);
    std::ofstream(home / "to") << "old";
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            co_await fs::copy_file(home / "from", home / "to",
                                   [&](std::uint64_t, std::uint64_t) { group.cancel(); });
        });
    };
    r.run(scenario());
    CHECK(content(home / "to") == "old");
    CHECK(entries_of(home) == 2);
}
