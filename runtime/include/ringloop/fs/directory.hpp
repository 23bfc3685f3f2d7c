// read_directory: the entries of a directory, one after the other.
//
//     auto entries = fs::read_directory("/var/log");
//     while (auto entry = co_await entries.next()) …
//
// Workers read; the entries come in batches, so that a large directory takes neither much memory
// nor a hop each. In the file system's order, without "." and ".."; what is made or removed
// meanwhile may be among them or not. With `kinds`, each says what it is; without, only its name
// and inode are right.
//
// Lifetime: the generator holds the directory open; it may end early. Thread: the scheduler's.
// Errors: ringloop::error, from next(). Cancel: the batch that is being read is lost, and the
// generator has ended; entries of one that was read are still given.
#pragma once

#include <filesystem>

#include "ringloop/fs/entry.hpp"
#include "ringloop/generator.hpp"

namespace ringloop::fs {

[[nodiscard]] generator<directory_entry> read_directory(std::filesystem::path path,
                                                        bool kinds = false);

}  // namespace ringloop::fs
