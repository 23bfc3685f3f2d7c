// Watching: what happens is told in order, moves in two halves, the end of a watch; nothing is lost
// to a stop, and what the kernel drops is told as such.
#include <sys/stat.h>

#include <fstream>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

namespace fs = rl::fs;
using kind = fs::change::kind;

// The next change that is neither a modification nor a close: those come as often as the C++
// library writes.
rl::task<fs::change> next_name(fs::watcher& watch) {
    while (true) {
        fs::change seen = co_await watch.next();
        if (seen.what != kind::modified && seen.what != kind::written) co_return seen;
    }
}

rl::task<void> expect(fs::watcher& watch, kind what, std::filesystem::path path) {
    const fs::change seen = co_await next_name(watch);
    CAPTURE(path);
    CHECK(seen.what == what);
    CHECK(seen.path == path);
}

}  // namespace

TEST_CASE("changes of a directory are told in order", "[fs][watch]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    std::filesystem::create_directory(home / "other");
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        fs::watcher watch;
        co_await watch.add(home.path);
        std::ofstream(home / "a") << "text";
        const fs::change made = co_await watch.next();
        CHECK(made.what == kind::created);
        CHECK(made.path == home / "a");
        CHECK_FALSE(made.directory);
        const fs::change modified = co_await watch.next();
        CHECK(modified.what == kind::modified);
        const fs::change written = co_await watch.next();
        CHECK(written.what == kind::written);

        std::filesystem::rename(home / "a", home / "b");
        const fs::change from = co_await watch.next();
        const fs::change to = co_await watch.next();
        CHECK(from.what == kind::moved_from);
        CHECK(from.path == home / "a");
        CHECK(to.what == kind::moved_to);
        CHECK(to.path == home / "b");
        CHECK(from.move != 0);
        CHECK(from.move == to.move);

        std::filesystem::create_directory(home / "folder");
        const fs::change folder_made = co_await watch.next();
        CHECK(folder_made.directory);
        std::filesystem::remove(home / "folder");
        co_await expect(watch, kind::deleted, home / "folder");

        co_await watch.add(home / "b");
        watch.remove(home.path);
        watch.remove(home / "never");
        co_await expect(watch, kind::ended, home.path);
        std::filesystem::remove(home / "b");
        co_await expect(watch, kind::deleted, home / "b");
        co_await expect(watch, kind::ended, home / "b");
        watch.remove(home / "b");
    };
    r.run(scenario());
}

TEST_CASE("a stopped wait for a change loses none, and two at once are refused", "[fs][watch]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    bool refused = false;
    const auto wait = [&](fs::watcher& watch) -> rl::task<void> {
        static_cast<void>(co_await watch.next());
    };
    const auto scenario = [&]() -> rl::task<void> {
        fs::watcher watch;
        co_await watch.add(home.path);
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(wait(watch));
            co_await rl::yield();
            try {
                co_await wait(watch);
            } catch (const std::logic_error&) {
                refused = true;
            }
            group.cancel();
        });
        std::filesystem::create_directory(home / "a");
        co_await expect(watch, kind::created, home / "a");
    };
    r.run(scenario());
    CHECK(refused);
}

TEST_CASE("what cannot be watched says why", "[fs][watch]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    int number = 0;
    const auto scenario = [&]() -> rl::task<void> {
        fs::watcher watch;
        try {
            co_await watch.add(home / "none");
        } catch (const rl::error& e) {
            number = e.code().value();
        }
    };
    r.run(scenario());
    CHECK(number == ENOENT);
}

TEST_CASE("changes that the kernel had no room for are told as an overflow", "[fs][watch]") {
    std::ifstream setting("/proc/sys/fs/inotify/max_queued_events");
    int room = 0;
    setting >> room;
    if (room == 0 || room > 20'000) return;  // would take too long to fill
    const folder home;
    std::ofstream(home / "a");
    std::ofstream(home / "b");
    runner r(rl::testing::real_bodies().back());
    int count = 0;
    const auto scenario = [&]() -> rl::task<void> {
        fs::watcher watch;
        co_await watch.add(home.path);
        for (int i = 0; i <= room / 2; ++i) {  // two events each; equal neighbours are merged
            ::chmod((home / "a").c_str(), 0600);
            ::chmod((home / "b").c_str(), 0600);
        }
        for (fs::change seen = co_await watch.next(); seen.what != kind::overflow; ++count)
            seen = co_await watch.next();
        std::filesystem::create_directory(home / "after");
        co_await expect(watch, kind::created, home / "after");
    };
    r.run(scenario());
    CHECK(count == room);
}
