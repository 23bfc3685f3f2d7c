// file: an open file; positional reads and writes, status, sync.
//
// Owns the descriptor; move-only; the destructor closes without waiting. Reads and writes name
// their offset, so any number may be under way at once. Errors: ringloop::error. Thread: the
// scheduler's.
// Cancel: a read loses nothing; of a write it is not known how much was written; a file that was
// opened faster is returned; sync and status lose nothing. What a disk has begun is waited for.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/detail/piece_list.hpp"
#include "ringloop/detail/resident.hpp"
#include "ringloop/fs/registered.hpp"
#include "ringloop/task.hpp"

namespace ringloop::fs {

namespace detail {

class read_await : public ringloop::detail::operation_await {
  public:
    read_await(int fd, std::span<std::byte> into, std::int64_t offset) noexcept {
        op_.prepare_read(fd, into.data(), into.size(), offset);
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("read_at")); }
};

class write_await : public ringloop::detail::operation_await {
  public:
    write_await(int fd, std::span<const std::byte> from, std::int64_t offset) noexcept {
        op_.prepare_write(fd, from.data(), from.size(), offset);
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("write_at")); }
};

class read_pieces_await : public ringloop::detail::operation_await {
  public:
    read_pieces_await(int fd, std::span<const std::span<std::byte>> into, std::int64_t offset)
        : list_(into) {
        op_.prepare_read(fd, list_.pieces(), offset);
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("read_at")); }

  private:
    ringloop::detail::piece_list list_;
};

class write_pieces_await : public ringloop::detail::operation_await {
  public:
    write_pieces_await(int fd, std::span<const std::span<const std::byte>> from,
                       std::int64_t offset)
        : list_(from) {
        op_.prepare_write(fd, list_.pieces(), offset);
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("write_at")); }

  private:
    ringloop::detail::piece_list list_;
};

class read_registered_await : public ringloop::detail::operation_await {
  public:
    read_registered_await(int fd, registered_span into, std::int64_t offset) noexcept {
        op_.prepare_read(fd, into.bytes().data(), into.bytes().size(), offset);
        op_.registered = into.number();
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("read_at")); }
};

class write_registered_await : public ringloop::detail::operation_await {
  public:
    write_registered_await(int fd, registered_span from, std::int64_t offset) noexcept {
        op_.prepare_write(fd, from.bytes().data(), from.bytes().size(), offset);
        op_.registered = from.number();
    }
    std::size_t await_resume() const { return static_cast<std::size_t>(finish("write_at")); }
};

class sync_await : public ringloop::detail::operation_await {
  public:
    sync_await(int fd, bool data_only) noexcept { op_.prepare_fsync(fd, data_only); }
    void await_resume() const { static_cast<void>(finish("sync")); }
};

class status_await : public ringloop::detail::operation_await {
  public:
    status_await(int directory, std::filesystem::path path, int flags) : path_(std::move(path)) {
        op_.prepare_statx(directory, path_.c_str(), flags, STATX_BASIC_STATS, &status_);
    }
    struct statx await_resume() const {
        static_cast<void>(finish([this] { return "stat " + path_.string(); }));
        return status_;
    }

  private:
    std::filesystem::path path_;
    struct statx status_ {};
};

}  // namespace detail

class file {
  public:
    file() noexcept = default;
    // Takes over an open descriptor.
    file(scheduler& home, int fd) noexcept : fd_(home, fd) {}

    // Bytes read, possibly fewer than asked; 0 at the end of the file.
    [[nodiscard]] detail::read_await read_at(std::span<std::byte> into, std::int64_t offset) const {
        return {checked_fd(), into, checked_offset(offset)};
    }
    // Bytes written, possibly fewer than given.
    [[nodiscard]] detail::write_await write_at(std::span<const std::byte> from,
                                               std::int64_t offset) const {
        return {checked_fd(), from, checked_offset(offset)};
    }
    // The same into, and from, several pieces of memory, in their order (readv, writev): the list
    // is copied, the memory stays. Of more than 1024 the first are taken.
    [[nodiscard]] detail::read_pieces_await read_at(std::span<const std::span<std::byte>> into,
                                                    std::int64_t offset) const {
        return {checked_fd(), into, checked_offset(offset)};
    }
    [[nodiscard]] detail::write_pieces_await write_at(
        std::span<const std::span<const std::byte>> from, std::int64_t offset) const {
        return {checked_fd(), from, checked_offset(offset)};
    }
    // The same with registered memory (fs/registered.hpp) of this file's scheduler.
    [[nodiscard]] detail::read_registered_await read_at(registered_span into,
                                                        std::int64_t offset) const {
        return {checked_fd(), checked_memory(into), checked_offset(offset)};
    }
    [[nodiscard]] detail::write_registered_await write_at(registered_span from,
                                                          std::int64_t offset) const {
        return {checked_fd(), checked_memory(from), checked_offset(offset)};
    }
    // To the disk: all, or with `data_only` what a later read needs.
    [[nodiscard]] detail::sync_await sync(bool data_only = false) const {
        return {checked_fd(), data_only};
    }
    [[nodiscard]] detail::status_await status() const { return {checked_fd(), "", AT_EMPTY_PATH}; }
    // Closes and reports what the kernel kept back (EIO, ENOSPC). The descriptor is gone in any
    // case; not interrupted by a stop.
    [[nodiscard]] task<void> close();
    // The same without waiting or reporting.
    void close_now() noexcept { fd_.close(); }

    [[nodiscard]] explicit operator bool() const noexcept { return fd_.get() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return fd_.get(); }

  private:
    [[nodiscard]] int checked_fd() const;  // throws std::logic_error
    [[nodiscard]] registered_span checked_memory(registered_span of) const;  // std::logic_error
    [[nodiscard]] static std::int64_t checked_offset(std::int64_t at);  // std::invalid_argument
    ringloop::detail::resident_descriptor fd_;
};

// `flags` as for open(2): O_RDONLY, O_CREAT …; O_CLOEXEC is added.
[[nodiscard]] task<file> open(std::filesystem::path path, int flags = O_RDONLY, mode_t mode = 0666);
// Follows links.
[[nodiscard]] detail::status_await status(std::filesystem::path path);

}  // namespace ringloop::fs
