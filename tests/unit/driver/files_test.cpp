// File operations, on every body.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

std::string fresh_path() {
    static int number = 0;
    return "/tmp/ringloop_files_test_" + std::to_string(::getpid()) + "_" +
           std::to_string(number++);
}

int open_fresh(driver& d, const std::string& path) {
    recorder op(d);
    op.prepare_open(AT_FDCWD, path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    const int fd = op.run();
    REQUIRE(fd >= 0);
    ::unlink(path.c_str());  // the simulated kernel's has no such name here
    return fd;
}

}  // namespace

TEST_CASE("what is written at a place is read from it") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder op(d);
    op.prepare_write(fd, "0123456789", 10, 0);
    CHECK(op.run() == 10);
    op.prepare_write(fd, "xy", 2, 4);
    CHECK(op.run() == 2);
    char data[16] = {};
    op.prepare_read(fd, data, sizeof data, 2);
    CHECK(op.run() == 8);
    CHECK(std::string_view(data, 8) == "23xy6789");
    op.prepare_read(fd, data, sizeof data, 10);
    CHECK(op.run() == 0);
    CHECK(d.close(fd) == 0);
}

TEST_CASE("pieces of memory are written and read in their order") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder op(d);
    char head[] = "01234";
    char tail[] = "56789abc";
    const iovec from[] = {{head, 5}, {nullptr, 0}, {tail, 8}};
    op.prepare_write(fd, from, 0);
    CHECK(op.run() == 13);
    char first[4] = {};
    char second[16] = {};
    const iovec into[] = {{first, 4}, {second, 16}};
    op.prepare_read(fd, into, 2);
    CHECK(op.run() == 11);
    CHECK(std::string_view(first, 4) == "2345");
    CHECK(std::string_view(second, 7) == "6789abc");
    op.prepare_write(fd, from, -1);  // at the file's own position, which the others left alone
    CHECK(op.run() == 13);
    op.prepare_read(fd, into, -1);
    CHECK(op.run() == 0);
    op.prepare_read(fd, second, 16, 0);  // of one piece again
    CHECK(op.run() == 13);
    CHECK(d.close(fd) == 0);
}

TEST_CASE("pieces go through a pipe, too") {
    ON_EVERY_BODY(bench);
    int ends[2] = {-1, -1};
    REQUIRE(d.make_pipe(ends) == 0);
    recorder reads(d);
    char first[2] = {};
    char second[8] = {};
    const iovec into[] = {{first, 2}, {second, 8}};
    reads.prepare_read(ends[0], into, -1);
    d.submit(reads);
    recorder writes(d);
    char text[] = "abcdef";
    const iovec from[] = {{text, 6}};
    writes.prepare_write(ends[1], from, -1);
    CHECK(writes.run() == 6);
    turn_until(d, [&] { return reads.over(); });
    // A pipe that knows no RWF_NOWAIT gives the epoll body one piece at a time.
    CHECK((reads.result() == 6 || reads.result() == 2));
    CHECK(std::string_view(first, 2) == "ab");
    CHECK(d.close(ends[0]) == 0);
    CHECK(d.close(ends[1]) == 0);
}

TEST_CASE("offset -1 reads and writes at the file's own position") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder op(d);
    op.prepare_write(fd, "abc", 3, -1);
    CHECK(op.run() == 3);
    op.prepare_write(fd, "def", 3, -1);
    CHECK(op.run() == 3);
    char data[6] = {};
    op.prepare_read(fd, data, 6, 0);
    CHECK(op.run() == 6);
    CHECK(std::string_view(data, 6) == "abcdef");
    CHECK(d.close(fd) == 0);
}

TEST_CASE("opening what is not there fails with ENOENT") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    op.prepare_open(AT_FDCWD, "/tmp/ringloop_no_such_file", O_RDONLY, 0);
    CHECK(op.run() == -ENOENT);
}

TEST_CASE("statx describes an open file") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder op(d);
    op.prepare_write(fd, "12345", 5, 0);
    CHECK(op.run() == 5);
    struct statx found {};
    op.prepare_statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &found);
    CHECK(op.run() == 0);
    CHECK(found.stx_size == 5);
    CHECK(d.close(fd) == 0);
}

TEST_CASE("statx of what is not there fails with ENOENT and leaves the result alone") {
    ON_EVERY_BODY(bench);
    recorder op(d);
    struct statx found {};
    found.stx_size = 77;
    op.prepare_statx(AT_FDCWD, "/tmp/ringloop_no_such_file", 0, STATX_SIZE, &found);
    CHECK(op.run() == -ENOENT);
    CHECK(found.stx_size == 77);
}

TEST_CASE("fsync and close end with 0") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder op(d);
    op.prepare_fsync(fd, false);
    CHECK(op.run() == 0);
    op.prepare_fsync(fd, true);
    CHECK(op.run() == 0);
    op.prepare_close(fd);
    CHECK(op.run() == 0);
    op.prepare_fsync(fd, false);
    CHECK(op.run() == -EBADF);
}

TEST_CASE("many file operations at once all complete") {
    ON_EVERY_BODY(bench);
    const int fd = open_fresh(d, fresh_path());
    recorder write(d);
    std::string content(64 * 1000, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i / 64);
    write.prepare_write(fd, content.data(), content.size(), 0);
    REQUIRE(write.run() == static_cast<std::int32_t>(content.size()));
    std::string back(content.size(), '\0');
    std::vector<std::unique_ptr<recorder>> ops;
    for (std::size_t i = 0; i < 1000; ++i) {
        ops.push_back(std::make_unique<recorder>(d));
        ops.back()->prepare_read(fd, back.data() + i * 64, 64, static_cast<std::int64_t>(i * 64));
        d.submit(*ops.back());
    }
    turn_until(d, [&] { return d.in_flight() == 0; });
    for (const auto& op : ops) CHECK(op->result() == 64);
    CHECK((back == content));
    CHECK(d.close(fd) == 0);
}
