// pipe_reader, pipe_writer: the two ends of a byte pipe. make_pipe() makes both.
//
// Each owns its descriptor; move-only; the destructor closes, without waiting. It may also be one
// end of somebody else's pipe, a FIFO or a terminal: what is taken over keeps its mode, blocking or
// not. Thread: the scheduler's. An end is closed only after the awaits on it have ended.
// Errors: ringloop::error; a pipe that nobody reads any more is EPIPE, and no SIGPIPE is raised.
// Cancel: see each member.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "ringloop/detail/resident.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

class pipe_end {
  public:
    // Closes it; the other end notices at once.
    void close() noexcept { fd_.close(); }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_.get() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return fd_.get(); }
    // The caller closes it from here on.
    [[nodiscard]] int release() noexcept { return fd_.release(); }

  protected:
    pipe_end() noexcept = default;
    pipe_end(scheduler& home, int fd) noexcept : fd_(home, fd) {}
    pipe_end(pipe_end&&) noexcept = default;
    pipe_end& operator=(pipe_end&&) noexcept = default;
    ~pipe_end() = default;
    [[nodiscard]] int checked_fd() const;  // throws std::logic_error
    [[nodiscard]] scheduler& home() const noexcept { return fd_.home(); }

  private:
    detail::resident_descriptor fd_;
};

class pipe_reader : public pipe_end {
  public:
    pipe_reader() noexcept = default;
    // Takes over an open descriptor.
    pipe_reader(scheduler& home, int fd) noexcept : pipe_end(home, fd) {}

    // Bytes read, at least one; 0 when all writers have closed (or for an empty span).
    // Cancel loses nothing: bytes that were faster are returned.
    [[nodiscard]] task<std::size_t> read_some(std::span<std::byte> into);
    // Everything up to the end. Cancel: what was read so far is lost.
    [[nodiscard]] task<std::string> read_all();
};

class pipe_writer : public pipe_end {
  public:
    pipe_writer() noexcept = default;
    // Takes over an open descriptor.
    pipe_writer(scheduler& home, int fd) noexcept : pipe_end(home, fd) {}

    // Writes all of it; `bytes` stay alive and unchanged until the await ends. Cancel: what the
    // pipe took stays there, how much that is gets lost.
    [[nodiscard]] task<void> write_all(std::span<const std::byte> bytes);
    [[nodiscard]] task<void> write_all(std::string_view text) {
        return write_all(std::as_bytes(std::span(text)));
    }
    // Writes a part, at least one byte; returns how many. Cancel writes nothing.
    [[nodiscard]] task<std::size_t> write_some(std::span<const std::byte> bytes);
};

struct pipe_ends {
    pipe_reader reader;
    pipe_writer writer;
};

// On the running scheduler. Both ends are close-on-exec.
[[nodiscard]] pipe_ends make_pipe();

}  // namespace ringloop
