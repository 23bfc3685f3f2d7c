// Operations that change names, and calls on a worker, on every body.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

// A folder made and removed by the driver itself, so that the simulated kernel has it, too.
struct folder {
    explicit folder(driver& on) : d(on) {
        static int number = 0;
        path = "/tmp/ringloop_names_test_" + std::to_string(::getpid()) + "_" +
               std::to_string(number++);
        recorder op(d);
        op.prepare_mkdir(AT_FDCWD, path.c_str(), 0700);
        REQUIRE(op.run() == 0);
    }
    ~folder() {
        recorder op(d);
        op.prepare_unlink(AT_FDCWD, path.c_str(), AT_REMOVEDIR);
        CHECK(op.run() == 0);
    }
    [[nodiscard]] std::string operator/(const char* name) const { return path + "/" + name; }

    driver& d;
    std::string path;
};

void make_file(driver& d, const std::string& path) {
    recorder op(d);
    op.prepare_open(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
    const int fd = op.run();
    REQUIRE(fd >= 0);
    REQUIRE(d.close(fd) == 0);
}

int mkdir(driver& d, const std::string& path, mode_t mode = 0700) {
    recorder op(d);
    op.prepare_mkdir(AT_FDCWD, path.c_str(), mode);
    return op.run();
}

int unlink(driver& d, const std::string& path, int flags = 0) {
    recorder op(d);
    op.prepare_unlink(AT_FDCWD, path.c_str(), flags);
    return op.run();
}

int rename(driver& d, const std::string& from, const std::string& to, int flags = 0) {
    recorder op(d);
    op.prepare_rename(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags);
    return op.run();
}

int describe(driver& d, const std::string& path, struct statx& found, int flags = 0) {
    recorder op(d);
    op.prepare_statx(AT_FDCWD, path.c_str(), flags, STATX_BASIC_STATS, &found);
    return op.run();
}

}  // namespace

TEST_CASE("a renamed file has the new name and not the old one") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    make_file(d, home / "a");
    struct statx before {};
    REQUIRE(describe(d, home / "a", before) == 0);
    CHECK(rename(d, home / "a", home / "b") == 0);
    struct statx after {};
    CHECK(describe(d, home / "a", after) == -ENOENT);
    CHECK(describe(d, home / "b", after) == 0);
    CHECK(after.stx_ino == before.stx_ino);
    CHECK(unlink(d, home / "b") == 0);
    CHECK(unlink(d, home / "b") == -ENOENT);
}

TEST_CASE("a rename replaces a file, unless it is told not to") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    make_file(d, home / "a");
    make_file(d, home / "b");
    CHECK(rename(d, home / "a", home / "b", RENAME_NOREPLACE) == -EEXIST);
    CHECK(rename(d, home / "a", home / "b") == 0);
    CHECK(unlink(d, home / "a") == -ENOENT);
    CHECK(unlink(d, home / "b") == 0);
}

TEST_CASE("a rename refuses what Linux refuses") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    REQUIRE(mkdir(d, home / "dir") == 0);
    make_file(d, home / "dir/inside");
    make_file(d, home / "file");
    CHECK(rename(d, home / "none", home / "x") == -ENOENT);
    CHECK(rename(d, home / "file", home / "none/x") == -ENOENT);
    CHECK(rename(d, home / "file", home / "dir") == -EISDIR);
    CHECK(rename(d, home / "dir", home / "file") == -ENOTDIR);
    CHECK(rename(d, home / "dir", home / "dir/below") == -EINVAL);
    REQUIRE(mkdir(d, home / "empty") == 0);
    CHECK(rename(d, home / "empty", home / "dir") == -ENOTEMPTY);
    CHECK(rename(d, home / "dir", home / "empty") == 0);  // an empty one is replaced
    CHECK(unlink(d, home / "empty/inside") == 0);         // and what was in it moved along
    CHECK(unlink(d, home / "empty", AT_REMOVEDIR) == 0);
    CHECK(unlink(d, home / "file") == 0);
}

TEST_CASE("directories are made with their mode and removed when they are empty") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    const std::string path = home / "made";
    CHECK(mkdir(d, path, 0710) == 0);
    CHECK(mkdir(d, path) == -EEXIST);
    struct statx found {};
    CHECK(describe(d, path, found) == 0);
    CHECK(found.stx_mode == (S_IFDIR | 0710));
    make_file(d, path + "/inside");
    CHECK(unlink(d, path) == -EISDIR);
    CHECK(unlink(d, path, AT_REMOVEDIR) == -ENOTEMPTY);
    CHECK(unlink(d, path + "/inside", AT_REMOVEDIR) == -ENOTDIR);
    CHECK(unlink(d, path + "/inside") == 0);
    CHECK(unlink(d, path, AT_REMOVEDIR) == 0);
    CHECK(mkdir(d, path + "/a/b") == -ENOENT);
}

TEST_CASE("a hard link is a second name, a symbolic link is followed") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    make_file(d, home / "file");
    const std::string file = home / "file";
    const std::string hard = home / "hard";
    const std::string soft = home / "soft";
    recorder op(d);
    op.prepare_link(AT_FDCWD, file.c_str(), AT_FDCWD, hard.c_str());
    CHECK(op.run() == 0);
    CHECK(op.run() == -EEXIST);
    op.prepare_symlink("file", AT_FDCWD, soft.c_str());
    CHECK(op.run() == 0);
    CHECK(op.run() == -EEXIST);
    struct statx one {};
    struct statx two {};
    REQUIRE(describe(d, file, one) == 0);
    CHECK(one.stx_nlink == 2);
    CHECK(describe(d, soft, two) == 0);
    CHECK(one.stx_ino == two.stx_ino);
    CHECK(describe(d, soft, two, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(S_ISLNK(two.stx_mode));
    const std::string other = home / "third";
    op.prepare_link(AT_FDCWD, home.path.c_str(), AT_FDCWD, other.c_str());
    CHECK(op.run() == -EPERM);
    for (const char* name : {"file", "hard", "soft"}) CHECK(unlink(d, home / name) == 0);
}

TEST_CASE("names may be relative to an open directory") {
    ON_EVERY_BODY(bench);
    const folder home(d);
    recorder op(d);
    op.prepare_open(AT_FDCWD, home.path.c_str(), O_RDONLY | O_DIRECTORY, 0);
    const int directory = op.run();
    REQUIRE(directory >= 0);
    op.prepare_mkdir(directory, "a", 0700);
    CHECK(op.run() == 0);
    op.prepare_rename(directory, "a", directory, "b");
    CHECK(op.run() == 0);
    op.prepare_symlink("b", directory, "c");
    CHECK(op.run() == 0);
    op.prepare_link(directory, "c", directory, "d");
    CHECK(op.run() == 0);
    for (const char* name : {"c", "d"}) {
        op.prepare_unlink(directory, name);
        CHECK(op.run() == 0);
    }
    op.prepare_unlink(directory, "b", AT_REMOVEDIR);
    CHECK(op.run() == 0);
    CHECK(d.close(directory) == 0);
}

// ---- calls

namespace {

struct count_up {
    std::atomic<int> calls{0};
    std::thread::id where;
    static std::int32_t run(void* context) noexcept {
        auto& self = *static_cast<count_up*>(context);
        self.where = std::this_thread::get_id();
        return ++self.calls;
    }
};

struct gate {
    std::atomic<bool> entered{false};
    std::atomic<bool> open{false};
    static std::int32_t run(void* context) noexcept {
        auto& self = *static_cast<gate*>(context);
        self.entered = true;
        self.entered.notify_all();
        self.open.wait(false);
        return 7;
    }
};

}  // namespace

TEST_CASE("a call ends with what its function returns") {
    ON_EVERY_BODY(bench);
    count_up context;
    recorder op(d);
    op.prepare_call(&count_up::run, &context);
    CHECK(op.run() == 1);
    CHECK(op.run() == 2);
    const bool real = chosen.kind != backend::fake;
    CHECK((context.where != std::this_thread::get_id()) == real);
}

TEST_CASE("a thousand calls at once are all made, each once") {
    ON_EVERY_BODY(bench);
    count_up context;
    std::vector<std::unique_ptr<recorder>> ops;
    for (int i = 0; i < 1000; ++i) {
        ops.push_back(std::make_unique<recorder>(d, i % 2 == 0));
        ops.back()->prepare_call(&count_up::run, &context);
        d.submit(*ops.back());
    }
    turn_until(d, [&] { return d.in_flight() == 0; });
    CHECK(context.calls == 1000);
}

TEST_CASE("a cancel drops a call that has not begun and waits for one that has") {
    const body chosen = GENERATE(from_range(real_bodies()));
    CAPTURE(chosen);
    workbench bench(chosen, {.file_threads_max = 1});
    driver& d = *bench.d;
    gate running;
    count_up never;
    recorder first(d);
    first.prepare_call(&gate::run, &running);
    d.submit(first);
    d.poll();
    running.entered.wait(false);
    recorder second(d);
    second.prepare_call(&count_up::run, &never);
    d.submit(second);
    d.poll();
    d.cancel(first);
    d.cancel(second);
    turn_until(d, [&] { return second.over(); });
    CHECK(second.result() == -ECANCELED);
    CHECK_FALSE(first.over());
    running.open = true;
    running.open.notify_all();
    turn_until(d, [&] { return first.over(); });
    CHECK(first.result() == 7);
    CHECK(never.calls == 0);
}
