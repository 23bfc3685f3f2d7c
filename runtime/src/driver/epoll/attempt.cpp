// attempt: one operation, tried now and without blocking. What would block says so and changes
// nothing; a multishot operation's completions but the last are delivered here.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <span>

#include "driver/epoll/epoll_driver.hpp"
#include "driver/epoll/park_word.hpp"
#include "driver/non_blocking.hpp"

namespace ringloop::epoll {
namespace {

// A multishot operation's share of one turn.
constexpr int receives_max = 16;

ssize_t answer(ssize_t result) noexcept {
    return result < 0 ? -errno : result;
}

short ready_now(int fd, unsigned events) noexcept {
    pollfd entry{fd, static_cast<short>(events), 0};
    return ::poll(&entry, 1, 0) < 0 ? short{0} : entry.revents;
}

ssize_t transfer_now(int fd, std::span<const iovec> pieces, std::int64_t offset,
                     bool reads) noexcept {
    const int count = static_cast<int>(pieces.size());
    const ssize_t result = reads ? ::preadv2(fd, pieces.data(), count, offset, RWF_NOWAIT)
                                 : ::pwritev2(fd, pieces.data(), count, offset, RWF_NOWAIT);
    return answer(result);
}

// For files that know no RWF_NOWAIT: only if poll() promises that it will not block, and of several
// pieces the first.
ssize_t transfer_if_ready(int fd, std::span<const iovec> pieces, bool reads) noexcept {
    const short ready = ready_now(fd, reads ? POLLIN : POLLOUT);
    if (ready == 0) return -EAGAIN;
    const auto filled = std::find_if(pieces.begin(), pieces.end(),
                                     [](const iovec& each) { return each.iov_len != 0; });
    const iovec piece = filled == pieces.end() ? iovec{} : *filled;
    if (reads) return answer(::read(fd, piece.iov_base, piece.iov_len));
    const std::size_t size = piece.iov_len < PIPE_BUF ? piece.iov_len : PIPE_BUF;
    return answer(::write(fd, piece.iov_base, size));
}

}  // namespace

epoll_driver::outcome epoll_driver::settled(ssize_t result) noexcept {
    if (result == -EAGAIN) return {outcome::kind::blocked};
    if (result == -EINTR) return {outcome::kind::paused};
    return {outcome::kind::ended, {.result = static_cast<std::int32_t>(result)}};
}

epoll_driver::outcome epoll_driver::attempt(operation& op, std::uint32_t events) noexcept {
    switch (op.code) {
        case op_code::accept:
            return attempt_accept(op);
        case op_code::connect:
            return attempt_connect(op);
        case op_code::receive:
            return attempt_receive(op, events);
        case op_code::receive_into:
            return settled(answer(
                ::recv(op.fd, op.arguments.memory.data, op.arguments.memory.size, MSG_DONTWAIT)));
        case op_code::send:
            return settled(
                answer(::sendmsg(op.fd, op.arguments.send.message,
                                 op.arguments.send.flags | MSG_DONTWAIT | MSG_NOSIGNAL)));
        case op_code::read:
        case op_code::write:
            return attempt_transfer(op);
        case op_code::poll:
            return attempt_poll(op, events);
        default:
            return settled(-EINVAL);
    }
}

epoll_driver::outcome epoll_driver::attempt_accept(operation& op) noexcept {
    if (op.multishot) {
        const int ended = accept_waiting(op);
        return ended == 0 ? outcome{outcome::kind::paused} : settled(ended);
    }
    const non_blocking mode(op.fd);
    return settled(answer(::accept4(op.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

epoll_driver::outcome epoll_driver::attempt_connect(operation& op) noexcept {
    if ((op.driver_word & connecting_bit) == 0) {
        const non_blocking mode(op.fd);
        const ssize_t result =
            answer(::connect(op.fd, op.arguments.connect.address, op.arguments.connect.size));
        if (result != -EINPROGRESS) {
            // A Unix socket whose peer's backlog is full: readiness will never tell.
            return {outcome::kind::ended, {.result = static_cast<std::int32_t>(result)}};
        }
        op.driver_word |= connecting_bit;
        return {outcome::kind::blocked};
    }
    if (ready_now(op.fd, POLLOUT) == 0) return {outcome::kind::blocked};
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(op.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) error = errno;
    return {outcome::kind::ended, {.result = -error}};
}

// A short read of a stream means that it is drained (new bytes make a new edge), unless its end
// was already announced.
epoll_driver::outcome epoll_driver::attempt_receive(operation& op, std::uint32_t events) noexcept {
    const bool ending = events == 0 || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    for (int i = 0; i < receives_max; ++i) {
        if (free_buffers_.empty()) {
            return {outcome::kind::ended, {.result = -ENOBUFS}};
        }
        const buffer_id id = free_buffers_.back();
        const std::size_t asked = op.arguments.memory.size;
        const std::size_t size =
            asked == 0 ? pool_buffer_size_ : std::min(asked, pool_buffer_size_);
        const ssize_t result = answer(::recv(op.fd, buffer(id), size, MSG_DONTWAIT));
        if (result <= 0) return settled(result);
        free_buffers_.pop_back();
        const completion got{
            .result = static_cast<std::int32_t>(result), .more = op.multishot, .buffer = id};
        if (!op.multishot) return {outcome::kind::ended, got};
        complete(op, got);
        if (!ending && static_cast<std::size_t>(result) < pool_buffer_size_ && is_stream(op.fd)) {
            return {outcome::kind::blocked};
        }
    }
    return {outcome::kind::paused};
}

epoll_driver::outcome epoll_driver::attempt_transfer(operation& op) noexcept {
    const bool reads = op.code == op_code::read;
    const memory_arguments& m = op.arguments.memory;
    const vector_arguments& v = op.arguments.vector;
    const iovec whole = op.vectored ? iovec{} : iovec{m.data, m.size};
    const auto pieces = op.vectored ? std::span(v.pieces, v.count) : std::span(&whole, 1);
    ssize_t result = transfer_now(op.fd, pieces, op.vectored ? v.offset : m.offset, reads);
    if (result == -ESPIPE) result = transfer_now(op.fd, pieces, -1, reads);
    if (result == -EOPNOTSUPP) result = transfer_if_ready(op.fd, pieces, reads);
    return settled(result);
}

epoll_driver::outcome epoll_driver::attempt_poll(operation& op, std::uint32_t events) noexcept {
    const std::uint32_t wanted = op.arguments.poll.events | POLLERR | POLLHUP;
    std::uint32_t ready = events & wanted;
    if (events == 0) {
        ready = static_cast<unsigned short>(ready_now(op.fd, op.arguments.poll.events));
        if ((ready & POLLNVAL) != 0) return settled(-EBADF);
    }
    if (ready == 0) return {outcome::kind::blocked};
    const completion got{.result = static_cast<std::int32_t>(ready), .more = op.multishot};
    if (!op.multishot) return {outcome::kind::ended, got};
    complete(op, got);
    return {outcome::kind::blocked};
}

bool epoll_driver::is_stream(int fd) noexcept {
    watch* w = watch_of(fd);
    if (w == nullptr) return false;
    if (w->kind == stream::unknown) {
        int type = 0;
        socklen_t size = sizeof type;
        const bool asked = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
        w->kind = asked && type == SOCK_STREAM ? stream::yes : stream::no;
    }
    return w->kind == stream::yes;
}

}  // namespace ringloop::epoll
