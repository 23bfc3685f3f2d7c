// Whole files: reads and writes by the ring; a copy by workers, a piece at a time.
#include "ringloop/fs/whole_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <random>

#include "fs/on_worker.hpp"
#include "ringloop/error.hpp"
#include "ringloop/fs/blocking.hpp"
#include "ringloop/fs/file.hpp"
#include "ringloop/fs/path.hpp"
#include "ringloop/when.hpp"

namespace ringloop::fs {
namespace {

using std::filesystem::path;

constexpr std::size_t read_step = 64 * 1024;  // where a file does not know its size
constexpr std::size_t write_step = 1 << 30;   // one operation's; the kernel's own limit is 2 GiB
constexpr std::int64_t copy_piece = 8 << 20;  // between two calls of the progress

bool same_file(const struct statx& one, const struct statx& other) noexcept {
    return one.stx_ino == other.stx_ino && one.stx_dev_major == other.stx_dev_major &&
           one.stx_dev_minor == other.stx_dev_minor;
}

void check_regular(const struct statx& found, const path& name) {
    if (S_ISREG(found.stx_mode)) return;
    ringloop::detail::throw_error(S_ISDIR(found.stx_mode) ? EISDIR : EINVAL,
                                  ("copy a file: " + name.string()).c_str());
}

path beside(const path& name) {
    std::random_device random;
    char text[40];
    std::snprintf(text, sizeof text, ".ringloop-%08x%08x.part", random(), random());
    return name.parent_path() / text;
}

// The bytes of one file, into a new one; its size. A file may claim to be empty, or grow: it ends
// where nothing more can be copied.
task<std::uint64_t> fill(const path& source, const path& part, std::uint64_t total,
                         const copy_progress& progress) {
    const file from = co_await fs::open(source);
    file to = co_await fs::open(part, O_WRONLY | O_CREAT | O_EXCL, 0600);
    const std::string what = "copy " + source.string();
    extent data;
    int count = 0;
    do {
        count = co_await on_worker(what.c_str(), [&](const std::atomic<bool>& stop) noexcept {
            const int result = find_data(from.native_handle(), data.begin, data);
            if (result < 0) return result;
            const std::int64_t there = data.end - data.begin;
            const std::int64_t size = there == 0 ? copy_piece : std::min(there, copy_piece);
            return copy_part(from.native_handle(), to.native_handle(), data.begin,
                             static_cast<std::size_t>(size), stop);
        });
        data.begin += count;
        const auto done = static_cast<std::uint64_t>(data.begin);
        if (progress) progress(done, std::max(done, total));
    } while (count != 0);
    // A hole at the end, which no write has reached.
    co_await on_worker(what.c_str(), [&](const std::atomic<bool>&) noexcept {
        return truncate_file(to.native_handle(), data.begin);
    });
    co_await to.close();
    co_return static_cast<std::uint64_t>(data.begin);
}

// The path that `name` stands for, links followed.
task<path> behind_links(const path& name) {
    path real;
    co_await on_worker("follow a link", [&](const std::atomic<bool>&) noexcept {
        std::error_code failure;
        real = std::filesystem::canonical(name, failure);
        return -failure.value();
    });
    co_return real;
}

}  // namespace

task<std::string> read_file(path name) {
    const file from = co_await fs::open(name);
    const struct statx found = co_await from.status();
    std::string all;
    all.resize(found.stx_size + 1);  // one more: a read that does not fill it has seen the end
    std::size_t size = 0;
    while (true) {
        const std::span<char> room = std::span(all).subspan(size);
        const std::size_t count = co_await from.read_at(
            std::as_writable_bytes(room.first(std::min(room.size(), write_step))),
            static_cast<std::int64_t>(size));
        size += count;
        if (count == 0 || (size > 0 && size == found.stx_size)) break;
        if (size == all.size()) all.resize(size + std::max(size, read_step));
    }
    all.resize(size);
    co_return all;
}

task<void> write_file(path name, std::span<const std::byte> bytes, mode_t mode) {
    file to = co_await fs::open(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    std::int64_t offset = 0;
    while (!bytes.empty()) {
        const std::size_t count =
            co_await to.write_at(bytes.first(std::min(bytes.size(), write_step)), offset);
        bytes = bytes.subspan(count);
        offset += static_cast<std::int64_t>(count);
    }
    co_await to.close();
}

task<std::uint64_t> copy_file(path from, path to) {
    return fs::copy_file(std::move(from), std::move(to), copy_progress());
}

task<std::uint64_t> copy_file(path from, path to, copy_progress progress) {
    const struct statx found = co_await fs::status(from);
    check_regular(found, from);
    if (co_await fs::exists(to)) {
        const struct statx there = co_await fs::status(to);
        check_regular(there, to);
        if (same_file(found, there))
            ringloop::detail::throw_error(
                EEXIST, ("copy " + from.string() + " to itself: " + to.string()).c_str());
        to = co_await behind_links(to);
    }
    const path part = beside(to);
    std::exception_ptr failure;
    std::uint64_t size = 0;
    try {
        size = co_await fill(from, part, found.stx_size, progress);
        co_await fs::chmod(part, found.stx_mode & 07777);
        co_await fs::rename(part, to);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure != nullptr) {
        const bool is_there = co_await shield(fs::exists(part));
        if (is_there) co_await shield(fs::unlink(part));
        std::rethrow_exception(failure);
    }
    co_return size;
}

}  // namespace ringloop::fs
