// describe: an operation as a submission entry. Pure: no kernel, no driver state.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>

#include "driver/uring/uring_driver.hpp"

namespace ringloop::uring {
namespace {

// The kernel moves at most this much in one read or write anyway.
unsigned capped(std::size_t size) noexcept {
    return static_cast<unsigned>(std::min<std::size_t>(size, 0x7ffff000));
}

void describe_receive(const operation& op, io_uring_sqe& sqe) noexcept {
    if (op.multishot) {
        ::io_uring_prep_recv_multishot(&sqe, op.fd, nullptr, 0, 0);
    } else {
        ::io_uring_prep_recv(&sqe, op.fd, nullptr, capped(op.arguments.memory.size), 0);
    }
    sqe.flags |= IOSQE_BUFFER_SELECT;
    sqe.buf_group = buffer_group;
}

// One plain piece needs no message: the kernel then copies no header and no vector.
void describe_send(const operation& op, io_uring_sqe& sqe) noexcept {
    const msghdr& m = *op.arguments.send.message;
    const int flags = op.arguments.send.flags | MSG_NOSIGNAL;
    if (m.msg_iovlen == 1 && m.msg_name == nullptr && m.msg_control == nullptr) {
        ::io_uring_prep_send(&sqe, op.fd, m.msg_iov[0].iov_base, capped(m.msg_iov[0].iov_len),
                             flags);
    } else {
        ::io_uring_prep_sendmsg(&sqe, op.fd, &m, static_cast<unsigned>(flags));
    }
}

void describe_transfer(const operation& op, io_uring_sqe& sqe) noexcept {
    const bool reads = op.code == op_code::read;
    if (op.vectored) {
        const vector_arguments& v = op.arguments.vector;
        const auto offset = static_cast<std::uint64_t>(v.offset);
        const auto count = static_cast<unsigned>(v.count);
        if (reads) return ::io_uring_prep_readv(&sqe, op.fd, v.pieces, count, offset);
        return ::io_uring_prep_writev(&sqe, op.fd, v.pieces, count, offset);
    }
    const memory_arguments& m = op.arguments.memory;
    const auto offset = static_cast<std::uint64_t>(m.offset);
    if (op.registered >= 0) {
        if (reads)
            return ::io_uring_prep_read_fixed(&sqe, op.fd, m.data, capped(m.size), offset,
                                              op.registered);
        return ::io_uring_prep_write_fixed(&sqe, op.fd, m.data, capped(m.size), offset,
                                           op.registered);
    }
    if (reads) return ::io_uring_prep_read(&sqe, op.fd, m.data, capped(m.size), offset);
    ::io_uring_prep_write(&sqe, op.fd, m.data, capped(m.size), offset);
}

}  // namespace

void describe(const operation& op, io_uring_sqe& sqe) noexcept {
    const auto& a = op.arguments;
    switch (op.code) {
        case op_code::nop:
            return ::io_uring_prep_nop(&sqe);
        case op_code::accept:
            if (op.multishot) return ::io_uring_prep_poll_add(&sqe, op.fd, POLLIN);
            return ::io_uring_prep_accept(&sqe, op.fd, nullptr, nullptr,
                                          SOCK_NONBLOCK | SOCK_CLOEXEC);
        case op_code::connect:
            return ::io_uring_prep_connect(&sqe, op.fd, a.connect.address, a.connect.size);
        case op_code::receive:
            return describe_receive(op, sqe);
        case op_code::receive_into:
            return ::io_uring_prep_recv(&sqe, op.fd, a.memory.data, capped(a.memory.size), 0);
        case op_code::send:
            return describe_send(op, sqe);
        case op_code::poll:
            if (op.multishot) return ::io_uring_prep_poll_multishot(&sqe, op.fd, a.poll.events);
            return ::io_uring_prep_poll_add(&sqe, op.fd, a.poll.events);
        case op_code::open:
            return ::io_uring_prep_openat(&sqe, op.fd, a.open.path, a.open.flags | O_CLOEXEC,
                                          a.open.mode);
        case op_code::read:
        case op_code::write:
            return describe_transfer(op, sqe);
        case op_code::statx:
            return ::io_uring_prep_statx(&sqe, op.fd, a.statx.path, a.statx.flags, a.statx.mask,
                                         a.statx.result);
        case op_code::fsync:
            return ::io_uring_prep_fsync(&sqe, op.fd,
                                         a.fsync.data_only ? IORING_FSYNC_DATASYNC : 0);
        case op_code::close:
            return ::io_uring_prep_close(&sqe, op.fd);
        case op_code::rename:
            return ::io_uring_prep_renameat(&sqe, op.fd, a.paths.path, a.paths.new_directory,
                                            a.paths.new_path, static_cast<unsigned>(a.paths.flags));
        case op_code::unlink:
            return ::io_uring_prep_unlinkat(&sqe, op.fd, a.path.path, a.path.flags);
        case op_code::mkdir:
            return ::io_uring_prep_mkdirat(&sqe, op.fd, a.path.path, a.path.mode);
        case op_code::link:
            return ::io_uring_prep_linkat(&sqe, op.fd, a.paths.path, a.paths.new_directory,
                                          a.paths.new_path, a.paths.flags);
        case op_code::symlink:
            return ::io_uring_prep_symlinkat(&sqe, a.paths.path, a.paths.new_directory,
                                             a.paths.new_path);
        case op_code::call:
            return;  // a worker's
    }
}

}  // namespace ringloop::uring
