// Names of the file system: making, moving, removing and asking for them.
//
// Each is carried out by the ring, or by a worker where that has no such operation; the scheduler's
// thread never waits for a disk. Relative paths begin at the working directory of the process.
// Thread: the scheduler's. Errors: ringloop::error, with the path in it.
// Cancel: a change that has begun is waited for; operation_cancelled means that nothing happened.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>

#include "ringloop/task.hpp"

namespace ringloop::fs {

// Replaces what has the new name, unless told not to (then EEXIST).
[[nodiscard]] task<void> rename(std::filesystem::path from, std::filesystem::path to,
                                bool replace = true);
// A file's name, a link's; not a directory's.
[[nodiscard]] task<void> unlink(std::filesystem::path path);
[[nodiscard]] task<void> mkdir(std::filesystem::path path, mode_t mode = 0777);
// With those above it that are not there. A directory that is there already is no error.
// Cancel: some of them may have been made.
[[nodiscard]] task<void> make_directories(std::filesystem::path path, mode_t mode = 0777);
// An empty directory.
[[nodiscard]] task<void> rmdir(std::filesystem::path path);
// A second name for a file (of a link: for the link itself).
[[nodiscard]] task<void> link(std::filesystem::path existing, std::filesystem::path name);
// `name` becomes a link to `target`, which need not be there.
[[nodiscard]] task<void> symlink(std::filesystem::path target, std::filesystem::path name);
[[nodiscard]] task<std::filesystem::path> read_link(std::filesystem::path path);
[[nodiscard]] task<void> chmod(std::filesystem::path path, mode_t mode);

// Of a link, not of what it points to. (Of that: status(), fs/file.hpp.)
[[nodiscard]] task<struct statx> link_status(std::filesystem::path path);
// Whether there is something, links followed. What cannot be known (EACCES …) is thrown.
[[nodiscard]] task<bool> exists(std::filesystem::path path);

}  // namespace ringloop::fs
