// Names: making, moving, removing, asking; why it did not work, and that a stop leaves all in
// place.
#include <sys/stat.h>

#include <fstream>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

namespace fs = rl::fs;

rl::task<void> touch(std::filesystem::path path) {
    auto made = co_await fs::open(path, O_CREAT | O_WRONLY, 0600);
}

}  // namespace

TEST_CASE("names are made, moved, linked and removed", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const bool simulated = body.kind == rl::backend::fake;
    const std::filesystem::path top = simulated ? "/tmp" : home.path;
    const auto scenario = [&]() -> rl::task<void> {
        co_await fs::mkdir(top / "a");
        co_await fs::make_directories(top / "a" / "b" / "c");
        co_await fs::make_directories(top / "a" / "b");
        co_await touch(top / "a" / "file");
        co_await fs::rename(top / "a" / "file", top / "a" / "b" / "moved");
        const bool gone = co_await fs::exists(top / "a" / "file");
        CHECK_FALSE(gone);
        co_await fs::link(top / "a" / "b" / "moved", top / "second");
        const auto linked = co_await fs::link_status(top / "second");
        CHECK(linked.stx_nlink == 2);
        co_await fs::symlink("a/b/moved", top / "pointer");
        const bool there = co_await fs::exists(top / "pointer");
        CHECK(there);
        const auto pointer = co_await fs::link_status(top / "pointer");
        CHECK(S_ISLNK(pointer.stx_mode));
        co_await fs::unlink(top / "pointer");
        co_await fs::unlink(top / "second");
        co_await fs::unlink(top / "a" / "b" / "moved");
        co_await fs::rmdir(top / "a" / "b" / "c");
        co_await fs::rmdir(top / "a" / "b");
        co_await fs::rmdir(top / "a");
        const bool left = co_await fs::exists(top / "a");
        CHECK_FALSE(left);
    };
    r.run(scenario());
}

TEST_CASE("a change of names that fails says why, with the path", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        co_await touch(home / "one");
        co_await touch(home / "two");
        const auto expect = [](int expected, rl::task<void> work) -> rl::task<void> {
            const int number = co_await error_of(std::move(work));
            CHECK(number == expected);
        };
        co_await expect(ENOENT, fs::unlink(home / "none"));
        co_await expect(EEXIST, fs::mkdir(home / "one"));
        co_await expect(ENOTDIR, fs::rmdir(home / "one"));
        co_await expect(EEXIST, fs::rename(home / "one", home / "two", false));
        co_await expect(0, fs::rename(home / "one", home / "two"));
        co_await expect(ENOENT, fs::link(home / "none", home / "other"));
        co_await expect(EEXIST, fs::symlink("x", home / "two"));
        co_await expect(EEXIST, fs::make_directories(home / "two"));
        co_await expect(EEXIST, fs::make_directories(home / "two/below"));
        co_await expect(ENOENT, fs::chmod(home / "none", 0600));
        std::string text;
        try {
            co_await fs::unlink(home / "none");
        } catch (const rl::error& e) {
            text = e.what();
        }
        CHECK(text.find((home / "none").string()) != std::string::npos);
        const bool below_a_file = co_await fs::exists(home / "two/below");
        CHECK_FALSE(below_a_file);
    };
    r.run(scenario());
}

TEST_CASE("links are read and modes changed by a worker", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        std::string far(200, 'x');
        far.append(1, '/').append(200, 'y');
        co_await fs::symlink(far, home / "pointer");
        const auto target = co_await fs::read_link(home / "pointer");
        CHECK(target == far);
        const bool dangling = co_await fs::exists(home / "pointer");
        CHECK_FALSE(dangling);
        co_await touch(home / "file");
        co_await fs::chmod(home / "file", 0640);
        const auto status = co_await fs::status(home / "file");
        CHECK((status.stx_mode & 07777) == 0640);
    };
    r.run(scenario());
}

TEST_CASE("a change that a stop comes before does not happen", "[fs][cancel]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    int stopped = 0;
    const auto work = [&](rl::task_group& group) -> rl::task<void> {
        group.cancel();
        for (int i = 0; i < 2; ++i) {
            try {
                if (i == 0) co_await fs::mkdir(home / "made");
                if (i == 1) co_await fs::read_link(home / "pointer");
            } catch (const rl::operation_cancelled&) {
                ++stopped;
            }
        }
    };
    const auto scenario = [&]() -> rl::task<void> { co_await rl::with_group(work); };
    r.run(scenario());
    CHECK(stopped == 2);
    CHECK_FALSE(std::filesystem::exists(home / "made"));
}
