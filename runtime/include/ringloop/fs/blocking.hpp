// blocking: system calls on files for which the ring has no operation. They block for as long as
// the file system takes, so they run on a worker: inside op_code::call, or offload().
//
// Each returns 0 or what it says, or a negated errno (never EINTR: it goes on). What has a `stop`
// looks at it at least once a millisecond on a local file system and then returns -ECANCELED.
// Thread: any; what the arguments refer to is the caller's and stays until the return.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringloop/fs/entry.hpp"

namespace ringloop::fs {

// An open directory, read a part at a time. Move-only; the destructor closes.
class directory_reader {
  public:
    directory_reader() noexcept = default;
    directory_reader(directory_reader&& other) noexcept
        : stream_(std::exchange(other.stream_, nullptr)) {}
    directory_reader& operator=(directory_reader&& other) noexcept {
        std::swap(stream_, other.stream_);
        return *this;
    }
    ~directory_reader();
    int open(const char* path) noexcept;  // once
    // Appends at most `count_max` further entries, as list_directory() does; 1: there may be more,
    // 0: these were the last.
    int read(std::size_t count_max, bool kinds, const std::atomic<bool>& stop,
             std::vector<directory_entry>& found) noexcept;

  private:
    void* stream_ = nullptr;  // DIR
};

// All entries but "." and "..", in the file system's order; with `kinds`, what each is (without,
// only the names and inodes are right). Entries that vanish meanwhile are DT_UNKNOWN.
int list_directory(const char* path, bool kinds, const std::atomic<bool>& stop,
                   std::vector<directory_entry>& found) noexcept;
int read_link(const char* path, std::string& target) noexcept;
// `mode`: F_OK, or R_OK | W_OK | X_OK; `flags`: AT_EACCESS, AT_SYMLINK_NOFOLLOW.
int check_access(const char* path, int mode, int flags) noexcept;
int change_mode(const char* path, mode_t mode) noexcept;
int truncate_path(const char* path, std::int64_t size) noexcept;
int truncate_file(int fd, std::int64_t size) noexcept;

// Where the next bytes of a file are that are no hole, at or behind `from`, and where they end;
// both the file's size (or `from`, if that is larger) if there are none. A file system that knows
// no holes has bytes everywhere.
struct extent {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
int find_data(int fd, std::int64_t from, extent& found) noexcept;
// Copies at most `size` bytes (up to 1 GiB) at `offset` of one file to the same place of another,
// inside the kernel where it can. Returns how many, fewer only at the end of the source.
inline constexpr std::size_t copy_step = std::size_t{1} << 20;  // between two looks at `stop`
std::int32_t copy_part(int from, int to, std::int64_t offset, std::size_t size,
                       const std::atomic<bool>& stop) noexcept;

// From a file to a socket that does not block, past this process's memory (sendfile): at most
// `send_step` bytes, 0 at the end of the file, -EAGAIN where the socket has no room, -EINVAL for
// what the kernel does not move so. Blocks for the disk alone. Raises SIGPIPE, which workers block.
inline constexpr std::size_t send_step = std::size_t{1} << 20;
std::int32_t send_part(int from, int socket, std::int64_t offset, std::uint64_t size) noexcept;

// Watching for changes (inotify): a descriptor that is read without blocking, and its watches.
// Opening and removing do not block.
int open_watcher() noexcept;
int add_watch(int watcher, const char* path, std::uint32_t events) noexcept;
int remove_watch(int watcher, int watch) noexcept;

}  // namespace ringloop::fs
