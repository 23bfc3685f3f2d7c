// Directories: every entry once, also of many; kinds; an early end; a stop.
#include <dirent.h>

#include <fstream>
#include <set>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

namespace fs = rl::fs;

// In memory, where there is room: thousands of files take a disk seconds.
std::filesystem::path place_for_many() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                     : std::filesystem::temp_directory_path();
}

void fill(const folder& home, int count) {
    for (int i = 0; i < count; ++i) std::ofstream(home.path / std::to_string(i));
}

}  // namespace

TEST_CASE("five thousand entries come in batches, each once", "[fs]") {
    const folder home(place_for_many());
    fill(home, 5000);
    for (const auto& body : rl::testing::real_bodies()) {
        CAPTURE(body);
        runner r(body);
        std::set<std::string> names;
        std::size_t count = 0;
        const auto scenario = [&]() -> rl::task<void> {
            auto entries = fs::read_directory(home.path);
            while (const auto entry = co_await entries.next()) {
                names.insert(entry->name);
                ++count;
            }
            // Half of another one, which its end closes.
            auto some = fs::read_directory(home.path);
            for (int i = 0; i < 2500; ++i) static_cast<void>(co_await some.next());
        };
        r.run(scenario());
        CHECK(count == 5000);
        CHECK(names.size() == 5000);
    }
}

TEST_CASE("entries say what they are", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    std::ofstream(home / "file");
    std::filesystem::create_directory(home / "folder");
    std::filesystem::create_symlink("folder", home / "pointer");
    runner r(body);
    std::set<std::tuple<std::string, int, int>> seen;
    const auto scenario = [&]() -> rl::task<void> {
        auto entries = fs::read_directory(home.path, true);
        while (const auto entry = co_await entries.next())
            seen.emplace(entry->name, entry->kind, entry->target_kind);
    };
    r.run(scenario());
    const std::set<std::tuple<std::string, int, int>> expected{
        {"file", DT_REG, DT_REG}, {"folder", DT_DIR, DT_DIR}, {"pointer", DT_LNK, DT_DIR}};
    CHECK(seen == expected);
}

TEST_CASE("a directory that is not there, and a stop", "[fs][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home(place_for_many());
    fill(home, 2000);  // more than a batch
    runner r(body);
    int number = 0;
    bool stopped = false;
    const auto stop_behind_the_first = [&](rl::task_group& group) -> rl::task<void> {
        auto entries = fs::read_directory(home.path);
        static_cast<void>(co_await entries.next());
        group.cancel();
        try {
            while (co_await entries.next()) {
            }
        } catch (const rl::operation_cancelled&) {
            stopped = true;
        }
        const auto over = co_await entries.next();
        CHECK_FALSE(over);
    };
    const auto scenario = [&]() -> rl::task<void> {
        auto entries = fs::read_directory(home / "none");
        try {
            static_cast<void>(co_await entries.next());
        } catch (const rl::error& e) {
            number = e.code().value();
        }
        co_await rl::with_group(stop_behind_the_first);
    };
    r.run(scenario());
    CHECK(number == ENOENT);
    CHECK(stopped);
}
