// Bytes through sockets and pipes, and readiness.
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "objects.hpp"

namespace ringloop::testing {

bool simulated_kernel::is_file(const simulated_object& object) const noexcept {
    return object.kind == object_kind::file;
}

bool simulated_kernel::is_socket(const simulated_object& object) const noexcept {
    return object.kind == object_kind::socket || object.kind == object_kind::listener;
}

int simulated_kernel::pipe(int (&fds)[2]) {
    const auto reader = std::make_shared<simulated_object>(object_kind::pipe_reader);
    const auto writer = std::make_shared<simulated_object>(object_kind::pipe_writer);
    reader->in = writer->out = std::make_shared<byte_channel>(limits_.pipe_buffer);
    reader->other = writer;
    writer->other = reader;
    reader->state = writer->state = socket_state::connected;
    fds[0] = install(reader);
    fds[1] = fds[0] < 0 ? fds[0] : install(writer);
    if (fds[1] < 0 && fds[0] >= 0) close(fds[0]);
    return fds[1] < 0 ? fds[1] : 0;
}

ssize_t simulated_kernel::receivable(const simulated_object& object) const noexcept {
    if (object.kind == object_kind::pipe_writer) return -EBADF;
    if (object.in == nullptr) return object.error != 0 ? -object.error : -ENOTCONN;
    if (object.in->size() > 0) return static_cast<ssize_t>(object.in->size());
    if (object.error != 0) return -object.error;
    if (object.in->ended || object.shut_read || object.dead) return 0;
    return -EAGAIN;
}

ssize_t simulated_kernel::sendable(const simulated_object& object) const noexcept {
    if (object.kind == object_kind::pipe_reader) return -EBADF;
    if (object.error != 0) return -object.error;
    if (object.out == nullptr) return -ENOTCONN;
    if (object.dead || object.out->ended) return -EPIPE;
    if (object.out->deaf) {
        // The peer has closed: its first answer to our bytes is a reset, except where it is known
        // at once.
        return object.domain == AF_UNIX || object.kind == object_kind::pipe_writer
                   ? -EPIPE
                   : static_cast<ssize_t>(object.out->capacity);
    }
    const std::size_t space = object.out->space();
    return space == 0 ? -EAGAIN : static_cast<ssize_t>(space);
}

ssize_t simulated_kernel::receive(simulated_object& object, std::span<const iovec> pieces,
                                  std::size_t max) {
    const ssize_t there = receivable(object);
    if (there < 0) {
        if (there != -EAGAIN) object.error = 0;
        return there;
    }
    std::size_t left = std::min(max, static_cast<std::size_t>(there));
    std::size_t moved = 0;
    for (const iovec& piece : pieces) {
        const std::size_t count = std::min(piece.iov_len, left);
        if (count == 0) continue;
        object.in->pop(piece.iov_base, count);
        left -= count;
        moved += count;
    }
    if (moved > 0) {
        if (const object_ref other = object.other.lock(); other != nullptr) changed(*other);
    }
    return static_cast<ssize_t>(moved);
}

ssize_t simulated_kernel::send(simulated_object& object, std::span<const iovec> pieces,
                               std::size_t max) {
    const ssize_t space = sendable(object);
    if (space < 0) {
        if (space != -EAGAIN) object.error = 0;
        return space;
    }
    std::size_t left = std::min(max, static_cast<std::size_t>(space));
    std::size_t moved = 0;
    for (const iovec& piece : pieces) {
        const std::size_t count = std::min(piece.iov_len, left);
        if (count == 0) continue;
        if (!object.out->deaf) object.out->push(piece.iov_base, count);
        left -= count;
        moved += count;
    }
    if (object.out->deaf) object.out->ended = true;  // the reset: EPIPE from now on
    if (moved > 0) {
        if (const object_ref other = object.other.lock(); other != nullptr) changed(*other);
    }
    return static_cast<ssize_t>(moved);
}

std::uint32_t simulated_kernel::ready_events(const simulated_object& object) const noexcept {
    if (object.kind == object_kind::foreign) return 0;
    if (object.kind == object_kind::listener) return object.backlog.empty() ? 0 : POLLIN;
    if (object.kind == object_kind::file) return POLLIN | POLLOUT;
    if (object.datagrams) return datagram_events(object);
    if (object.kind == object_kind::socket && object.in == nullptr)
        return object.error != 0                     ? POLLERR | POLLHUP | POLLOUT
               : object.state == socket_state::fresh ? POLLOUT | POLLHUP
                                                     : 0;
    std::uint32_t events = 0;
    if (object.kind != object_kind::pipe_writer && receivable(object) != -EAGAIN) events |= POLLIN;
    if (object.kind != object_kind::pipe_reader && sendable(object) != -EAGAIN) events |= POLLOUT;
    if (object.error != 0) events |= POLLERR;
    const bool in_ended = object.in != nullptr && (object.in->ended || object.dead);
    const bool out_ended = object.out != nullptr && (object.out->ended || object.dead);
    if (is_socket(object) && in_ended) events |= POLLRDHUP;
    if (is_socket(object) ? in_ended && out_ended : in_ended && object.in->size() == 0)
        events |= POLLHUP;
    if (object.kind == object_kind::pipe_writer && object.out->deaf) events |= POLLERR;
    return events;
}

ssize_t simulated_kernel::receive_bytes(int fd, void* data, std::size_t size) {
    const object_ref object = find(fd);
    if (object == nullptr) return -EBADF;
    const iovec piece = {data, size};
    return receive(*object, {&piece, 1}, size);
}

ssize_t simulated_kernel::send_bytes(int fd, const void* data, std::size_t size) {
    const object_ref object = find(fd);
    if (object == nullptr) return -EBADF;
    const iovec piece = {const_cast<void*>(data), size};
    return send(*object, {&piece, 1}, size);
}

}  // namespace ringloop::testing
