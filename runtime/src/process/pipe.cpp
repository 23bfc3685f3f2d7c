// Pipes: a read is an operation, a write is tried and then waits for room: an operation would raise
// SIGPIPE, and one that is cancelled would not say how much it has written.
#include "ringloop/process/pipe.hpp"

#include <poll.h>

#include <cerrno>
#include <stdexcept>
#include <vector>

#include "net/try_until.hpp"
#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/ready.hpp"

namespace ringloop {
namespace {

constexpr std::size_t read_all_step = 65536;  // what a pipe holds

class read_await : public detail::operation_await {
  public:
    read_await(int fd, std::span<std::byte> into) noexcept {
        op_.prepare_read(fd, into.data(), into.size(), -1);
    }
    // -EAGAIN: the descriptor is a non-blocking one, for which the ring does not wait.
    int await_resume() const { return finish_or(EAGAIN, "read from a pipe"); }
};

}  // namespace

int pipe_end::checked_fd() const {
    if (fd_.get() < 0)
        throw std::logic_error(
            "ringloop: the pipe's end is closed, was moved from, or its scheduler has ended");
    return fd_.get();
}

task<std::size_t> pipe_reader::read_some(std::span<std::byte> into) {
    const int fd = checked_fd();
    if (into.empty()) co_return 0;
    while (true) {
        const int count = co_await read_await(fd, into);
        if (count >= 0) co_return static_cast<std::size_t>(count);
        co_await net::ready(fd, POLLIN);
    }
}

task<std::string> pipe_reader::read_all() {
    std::string all;
    std::vector<std::byte> part(read_all_step);
    while (true) {
        const std::size_t count = co_await read_some(part);
        if (count == 0) co_return all;
        all.append(reinterpret_cast<const char*>(part.data()), count);
    }
}

task<std::size_t> pipe_writer::write_some(std::span<const std::byte> bytes) {
    const int fd = checked_fd();
    if (bytes.empty()) co_return 0;
    driver& door = home().io();
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    co_return co_await net::detail::try_until(fd, POLLOUT, "write to a pipe", [&] {
        return static_cast<int>(door.try_write(fd, {&piece, 1}));
    });
}

task<void> pipe_writer::write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t count = co_await write_some(bytes);
        bytes = bytes.subspan(count);
    }
}

pipe_ends make_pipe() {
    scheduler& home = detail::running_scheduler();
    int ends[2];
    detail::checked(home.io().make_pipe(ends), "make a pipe");
    return {pipe_reader(home, ends[0]), pipe_writer(home, ends[1])};
}

}  // namespace ringloop
