// operation: filling in arguments, and the check that the driver has let go.
//
// Thread: the driver's. Nothing here touches the kernel.
#include "ringloop/operation.hpp"

#include <cassert>

namespace ringloop {

operation::~operation() {
    assert(!in_flight() && "an operation died while its driver had it");
}

void operation::prepare(op_code new_code, int new_fd, bool repeat) noexcept {
    assert(!in_flight() && "an operation was prepared again while its driver had it");
    code = new_code;
    fd = new_fd;
    multishot = repeat;
    vectored = false;
    registered = -1;
    cancel_requested = false;
    state = op_state::idle;
}

void operation::prepare_nop() noexcept {
    prepare(op_code::nop, -1, false);
}

void operation::prepare_accept(int listener, bool repeat) noexcept {
    prepare(op_code::accept, listener, repeat);
    arguments.accept = {};
}

void operation::prepare_connect(int socket, const sockaddr* address, socklen_t size) noexcept {
    prepare(op_code::connect, socket, false);
    arguments.connect = {address, size};
}

void operation::prepare_receive(int socket, bool repeat, std::size_t size_max) noexcept {
    assert(!repeat || size_max == 0);
    prepare(op_code::receive, socket, repeat);
    arguments.memory = {nullptr, size_max, -1};
}

void operation::prepare_receive_into(int socket, void* data, std::size_t size) noexcept {
    prepare(op_code::receive_into, socket, false);
    arguments.memory = {data, size, -1};
}

void operation::prepare_send(int socket, const msghdr* message, int flags) noexcept {
    prepare(op_code::send, socket, false);
    arguments.send = {message, flags};
}

void operation::prepare_poll(int new_fd, std::uint32_t events, bool repeat) noexcept {
    prepare(op_code::poll, new_fd, repeat);
    arguments.poll = {events};
}

void operation::prepare_open(int directory, const char* path, int flags, mode_t mode) noexcept {
    prepare(op_code::open, directory, false);
    arguments.open = {path, flags, mode};
}

void operation::prepare_read(int new_fd, void* data, std::size_t size,
                             std::int64_t offset) noexcept {
    prepare(op_code::read, new_fd, false);
    arguments.memory = {data, size, offset};
}

void operation::prepare_write(int new_fd, const void* data, std::size_t size,
                              std::int64_t offset) noexcept {
    prepare(op_code::write, new_fd, false);
    arguments.memory = {const_cast<void*>(data), size, offset};
}

void operation::prepare_read(int new_fd, std::span<const iovec> pieces,
                             std::int64_t offset) noexcept {
    prepare(op_code::read, new_fd, false);
    vectored = true;
    arguments.vector = {pieces.data(), pieces.size(), offset};
}

void operation::prepare_write(int new_fd, std::span<const iovec> pieces,
                              std::int64_t offset) noexcept {
    prepare(op_code::write, new_fd, false);
    vectored = true;
    arguments.vector = {pieces.data(), pieces.size(), offset};
}

void operation::prepare_statx(int directory, const char* path, int flags, unsigned mask,
                              struct statx* result) noexcept {
    prepare(op_code::statx, directory, false);
    arguments.statx = {path, result, mask, flags};
}

void operation::prepare_fsync(int new_fd, bool data_only) noexcept {
    prepare(op_code::fsync, new_fd, false);
    arguments.fsync = {data_only};
}

void operation::prepare_close(int new_fd) noexcept {
    prepare(op_code::close, new_fd, false);
}

void operation::prepare_rename(int directory, const char* path, int new_directory,
                               const char* new_path, int flags) noexcept {
    prepare(op_code::rename, directory, false);
    arguments.paths = {path, new_path, new_directory, flags};
}

void operation::prepare_unlink(int directory, const char* path, int flags) noexcept {
    prepare(op_code::unlink, directory, false);
    arguments.path = {path, flags, 0};
}

void operation::prepare_mkdir(int directory, const char* path, mode_t mode) noexcept {
    prepare(op_code::mkdir, directory, false);
    arguments.path = {path, 0, mode};
}

void operation::prepare_link(int directory, const char* path, int new_directory,
                             const char* new_path, int flags) noexcept {
    prepare(op_code::link, directory, false);
    arguments.paths = {path, new_path, new_directory, flags};
}

void operation::prepare_symlink(const char* target, int directory, const char* path) noexcept {
    prepare(op_code::symlink, -1, false);
    arguments.paths = {target, path, directory, 0};
}

void operation::prepare_call(std::int32_t (*function)(void* context) noexcept,
                             void* context) noexcept {
    prepare(op_code::call, -1, false);
    arguments.call = {function, context};
}

}  // namespace ringloop
