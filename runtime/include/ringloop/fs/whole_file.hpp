// Whole files: read_file(), write_file(), copy_file().
//
// Thread: the scheduler's. Errors: ringloop::error. What a disk has begun is waited for at a stop.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ringloop/task.hpp"

namespace ringloop::fs {

// All bytes, also of a file that does not know its size (/proc) or grows meanwhile. Cancel loses
// nothing of the file.
[[nodiscard]] task<std::string> read_file(std::filesystem::path path);
// The file then holds `bytes` and nothing else; it is made if it is not there. `bytes` stay alive
// and unchanged until the await ends. Not to the disk yet: see file::sync().
// Cancel or error: it may hold a part. Who must not lose what was there writes beside it and
// renames.
[[nodiscard]] task<void> write_file(std::filesystem::path path, std::span<const std::byte> bytes,
                                    mode_t mode = 0666);
[[nodiscard]] inline task<void> write_file(std::filesystem::path path, std::string_view text,
                                           mode_t mode = 0666) {
    return write_file(std::move(path), std::as_bytes(std::span(text)), mode);
}

// Called on the scheduler's thread, about every 8 MiB and at the end: bytes done, bytes in all.
using copy_progress = std::function<void(std::uint64_t done, std::uint64_t total)>;
// Copies a regular file (links followed) with its permissions; the kernel moves the bytes where it
// can, and holes stay holes. Returns the size. The copy is made under a name of its own beside `to`
// and then renamed over it, so nobody sees a part of it.
// Throws ringloop::error: EISDIR or EINVAL where one of them is a directory or no file, EEXIST if
// both are the same file. Cancel or failure, the callback's included: `to` is as it was, the part
// is removed.
[[nodiscard]] task<std::uint64_t> copy_file(std::filesystem::path from, std::filesystem::path to);
[[nodiscard]] task<std::uint64_t> copy_file(std::filesystem::path from, std::filesystem::path to,
                                            copy_progress progress);

}  // namespace ringloop::fs
