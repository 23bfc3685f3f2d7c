// Blocking calls on files, for workers. Contract in fs/blocking.hpp.
#include "ringloop/fs/blocking.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace ringloop::fs {
namespace {

constexpr std::size_t buffer_size = 256 * 1024;

// The call's result or a negated errno; what a signal interrupted is done again.
template <typename Call>
auto persistently(Call call) noexcept {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result < 0 ? static_cast<decltype(result)>(-errno) : result;
}

std::uint8_t kind_of(int directory, const char* name, int flags) noexcept {
    struct stat found {};
    if (::fstatat(directory, name, &found, flags) != 0) return DT_UNKNOWN;
    return static_cast<std::uint8_t>(IFTODT(found.st_mode));
}

void look_closer(int directory, directory_entry& entry) noexcept {
    const char* name = entry.name.c_str();
    if (entry.kind == DT_UNKNOWN) entry.kind = kind_of(directory, name, AT_SYMLINK_NOFOLLOW);
    entry.target_kind = entry.kind == DT_LNK ? kind_of(directory, name, 0) : entry.kind;
}

bool is_dots(const char* name) noexcept {
    return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

// Between these two files, or from this one, the kernel does not copy by itself.
bool copies_otherwise(ssize_t result) noexcept {
    switch (-result) {
        case 0:  // files of /proc claim to be empty: a read knows
        case EXDEV:
        case EINVAL:
        case ENOSYS:
        case EOPNOTSUPP:
        case EPERM:
            return true;
        default:
            return false;
    }
}

ssize_t write_all(int to, const std::byte* data, std::size_t size, std::int64_t offset) noexcept {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count = persistently([&] {
            return ::pwrite(to, data + done, size - done, offset + static_cast<std::int64_t>(done));
        });
        if (count < 0) return count;
        if (count == 0) return -EIO;
        done += static_cast<std::size_t>(count);
    }
    return static_cast<ssize_t>(done);
}

ssize_t copy_through(std::byte* buffer, int from, int to, std::int64_t offset,
                     std::size_t size) noexcept {
    const std::size_t most = std::min(size, buffer_size);
    const ssize_t count = persistently([&] { return ::pread(from, buffer, most, offset); });
    return count <= 0 ? count : write_all(to, buffer, static_cast<std::size_t>(count), offset);
}

}  // namespace

directory_reader::~directory_reader() {
    if (stream_ != nullptr) ::closedir(static_cast<DIR*>(stream_));
}

int directory_reader::open(const char* path) noexcept {
    stream_ = ::opendir(path);
    return stream_ == nullptr ? -errno : 0;
}

int directory_reader::read(std::size_t count_max, bool kinds, const std::atomic<bool>& stop,
                           std::vector<directory_entry>& found) noexcept {
    auto* const stream = static_cast<DIR*>(stream_);
    const int fd = ::dirfd(stream);
    for (std::size_t count = 0; count < count_max;) {
        if (stop.load(std::memory_order_relaxed)) return -ECANCELED;
        errno = 0;
        const dirent* next = ::readdir(stream);
        if (next == nullptr) return -errno;
        if (is_dots(next->d_name)) continue;
        try {
            found.push_back({next->d_name, next->d_ino, next->d_type, next->d_type});
        } catch (const std::bad_alloc&) {
            return -ENOMEM;
        }
        if (kinds) look_closer(fd, found.back());
        ++count;
    }
    return 1;
}

int list_directory(const char* path, bool kinds, const std::atomic<bool>& stop,
                   std::vector<directory_entry>& found) noexcept {
    directory_reader directory;
    const int opened = directory.open(path);
    return opened < 0 ? opened : directory.read(SIZE_MAX, kinds, stop, found);
}

int read_link(const char* path, std::string& target) noexcept {
    try {
        for (target.resize(256);; target.resize(target.size() * 2)) {
            const ssize_t size = ::readlink(path, target.data(), target.size());
            if (size < 0) return -errno;
            if (static_cast<std::size_t>(size) == target.size()) continue;
            target.resize(static_cast<std::size_t>(size));
            return 0;
        }
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

int check_access(const char* path, int mode, int flags) noexcept {
    return persistently([&] { return ::faccessat(AT_FDCWD, path, mode, flags); });
}

int change_mode(const char* path, mode_t mode) noexcept {
    return persistently([&] { return ::chmod(path, mode); });
}

int truncate_path(const char* path, std::int64_t size) noexcept {
    return persistently([&] { return ::truncate(path, size); });
}

int truncate_file(int fd, std::int64_t size) noexcept {
    return persistently([&] { return ::ftruncate(fd, size); });
}

int find_data(int fd, std::int64_t from, extent& found) noexcept {
    const off64_t begin = ::lseek64(fd, from, SEEK_DATA);
    if (begin >= 0) {
        const off64_t end = ::lseek64(fd, begin, SEEK_HOLE);
        if (end < 0) return -errno;
        found = {begin, end};
        return 0;
    }
    const bool is_behind_all = errno == ENXIO;
    struct stat status {};
    if (::fstat(fd, &status) < 0) return -errno;
    const std::int64_t size = std::max<std::int64_t>(status.st_size, from);
    found = {is_behind_all ? size : from, size};
    return 0;
}

std::int32_t copy_part(int from, int to, std::int64_t offset, std::size_t size,
                       const std::atomic<bool>& stop) noexcept {
    std::unique_ptr<std::byte[]> buffer;  // once the kernel has refused
    std::size_t done = 0;
    while (done < size) {
        if (stop.load(std::memory_order_relaxed)) return -ECANCELED;
        off64_t in = offset + static_cast<std::int64_t>(done);
        off64_t out = in;
        const std::size_t step = std::min(size - done, copy_step);
        ssize_t count = 0;
        if (buffer == nullptr) {
            count = persistently([&] { return ::copy_file_range(from, &in, to, &out, step, 0); });
            if (copies_otherwise(count)) {
                buffer.reset(new (std::nothrow) std::byte[buffer_size]);
                if (buffer == nullptr) return -ENOMEM;
                continue;
            }
        } else {
            count = copy_through(buffer.get(), from, to, in, step);
        }
        if (count < 0) return static_cast<std::int32_t>(count);
        if (count == 0) break;
        done += static_cast<std::size_t>(count);
    }
    return static_cast<std::int32_t>(done);
}

std::int32_t send_part(int from, int socket, std::int64_t offset, std::uint64_t size) noexcept {
    off64_t at = offset;
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size, send_step));
    return static_cast<std::int32_t>(
        persistently([&] { return ::sendfile64(socket, from, &at, most); }));
}

int open_watcher() noexcept {
    const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int add_watch(int watcher, const char* path, std::uint32_t events) noexcept {
    return persistently([&] { return ::inotify_add_watch(watcher, path, events); });
}

int remove_watch(int watcher, int watch) noexcept {
    return ::inotify_rm_watch(watcher, watch) < 0 ? -errno : 0;
}

}  // namespace ringloop::fs
