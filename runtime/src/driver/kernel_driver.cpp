// kernel_driver: see the header. Each verb is one system call.
#include "driver/kernel_driver.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "driver/non_blocking.hpp"
#include "ringloop/memory.hpp"

namespace ringloop {
namespace {

constexpr int accepts_max = 64;

int answer(int result) noexcept {
    return result < 0 ? -errno : result;
}
ssize_t answer(ssize_t result) noexcept {
    return result < 0 ? -errno : result;
}

msghdr message_of(std::span<const iovec> pieces) noexcept {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return message;
}

void check_at_most(const char* name, unsigned value, unsigned max) {
    if (value <= max) return;
    throw std::invalid_argument(name + (" is " + std::to_string(value)) + ": take at most " +
                                std::to_string(max));
}

void check(const driver_config& config) {
    check_at_most("submission_entries", config.submission_entries, 32768);  // io_uring's own
    check_at_most("completion_entries", config.completion_entries, 65536);
    if (!std::has_single_bit(config.buffer_count) || config.buffer_count > 32768) {
        throw std::invalid_argument("buffer_count is " + std::to_string(config.buffer_count) +
                                    ": take a power of two up to 32768");
    }
    if (config.buffer_size == 0) {
        throw std::invalid_argument("buffer_size is 0: take at least 1 byte");
    }
}

}  // namespace

void* map_memory(std::size_t bytes, const char* purpose) {
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(),
                                "mmap of " + std::to_string(bytes) + " bytes for " + purpose);
    }
    ::madvise(mapped, bytes, MADV_DONTFORK);
    memory::took(memory::kind::receive_pools, mapped, bytes);
    return mapped;
}

void unmap_memory(void* mapped, std::size_t bytes) noexcept {
    memory::gave_back(memory::kind::receive_pools, mapped, bytes);
    ::munmap(mapped, bytes);
}

kernel_driver::kernel_driver(const driver_config& config) {
    check(config);
    pool_bytes_ = std::size_t{config.buffer_count} * config.buffer_size;
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) {
        throw std::system_error(errno, std::generic_category(),
                                "eventfd for waking the driver (descriptors: see RLIMIT_NOFILE)");
    }
    try {
        pool_memory_ = static_cast<std::byte*>(map_memory(pool_bytes_, "the receive pool"));
    } catch (...) {
        ::close(wake_fd_);
        throw;
    }
    pool_buffer_size_ = config.buffer_size;
    capabilities_.buffer_count = config.buffer_count;
    capabilities_.buffer_size = config.buffer_size;
    utsname system{};
    if (::uname(&system) == 0) capabilities_.kernel = system.release;
}

kernel_driver::~kernel_driver() {
    if (placeholder_fd_ >= 0) ::close(placeholder_fd_);
    if (abandoned_) return;
    unmap_memory(pool_memory_, pool_bytes_);
    ::close(wake_fd_);
}

void kernel_driver::abandon_kernel_parts() noexcept {
    ::close(wake_fd_);
    abandoned_ = true;
    forget_all();
}

// There is room for one more: some were closed just now. The child has no other thread yet.
void kernel_driver::abandon_to_poller_after_fork() noexcept {
    const int number = pollable_fd();
    abandon_after_fork();
    placeholder_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (placeholder_fd_ < 0 || placeholder_fd_ == number) return;
    static_cast<void>(::dup3(placeholder_fd_, number, O_CLOEXEC));
    ::close(std::exchange(placeholder_fd_, number));
}

void kernel_driver::body_signal() noexcept {
    const int saved = errno;  // we may be in a signal handler
    const std::uint64_t one = 1;
    // Cannot fail but by a full counter, and then the sleeper is awake.
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
    errno = saved;
}

ssize_t kernel_driver::try_send(int fd, std::span<const iovec> pieces) noexcept {
    if (pieces.size() == 1) {  // no message header to fetch and check
        return answer(
            ::send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    const msghdr message = message_of(pieces);
    return answer(::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t kernel_driver::try_receive(int fd, std::span<const iovec> pieces) noexcept {
    msghdr message = message_of(pieces);
    return answer(::recvmsg(fd, &message, MSG_DONTWAIT));
}

int kernel_driver::try_recvmmsg(int fd, std::span<mmsghdr> messages) noexcept {
    return answer(::recvmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()),
                             MSG_DONTWAIT, nullptr));
}

int kernel_driver::try_sendmmsg(int fd, std::span<mmsghdr> messages) noexcept {
    if (messages.size() == 1) {  // cheaper by the copies of the header
        const ssize_t sent =
            answer(::sendmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (sent < 0) return static_cast<int>(sent);
        messages[0].msg_len = static_cast<unsigned>(sent);
        return 1;
    }
    return answer(::sendmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()),
                             MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t kernel_driver::try_pread(int fd, void* data, std::size_t size,
                                 std::int64_t offset) noexcept {
    const iovec piece{data, size};
    return answer(::preadv2(fd, &piece, 1, offset, RWF_NOWAIT));
}

int kernel_driver::close(int fd) noexcept {
    const int result = answer(::close(fd));
    return result == -EINTR ? 0 : result;  // Linux has closed it by then
}

int kernel_driver::inspect(int fd, descriptor_facts& facts) noexcept {
    struct stat status = {};
    if (::fstat(fd, &status) != 0) return -errno;
    facts.positional = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
    facts.directory = S_ISDIR(status.st_mode);
    facts.size = status.st_size;
    return 0;
}

int kernel_driver::accept_waiting(operation& op) noexcept {
    const non_blocking mode(op.fd);
    for (int i = 0; i < accepts_max; ++i) {
        const int result = answer(::accept4(op.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (result < 0) return result;
        complete(op, {.result = result, .more = true});
    }
    return 0;
}

int kernel_driver::make_socket(int domain, int type, int protocol) noexcept {
    return answer(::socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
}

int kernel_driver::bind(int fd, const sockaddr* address, socklen_t size) noexcept {
    return answer(::bind(fd, address, size));
}

int kernel_driver::listen(int fd, int backlog) noexcept {
    return answer(::listen(fd, backlog));
}

int kernel_driver::shutdown(int fd, int how) noexcept {
    return answer(::shutdown(fd, how));
}

int kernel_driver::set_option(int fd, int level, int name, const void* value,
                              socklen_t size) noexcept {
    return answer(::setsockopt(fd, level, name, value, size));
}

int kernel_driver::get_option(int fd, int level, int name, void* value, socklen_t* size) noexcept {
    return answer(::getsockopt(fd, level, name, value, size));
}

int kernel_driver::local_address(int fd, sockaddr* address, socklen_t* size) noexcept {
    return answer(::getsockname(fd, address, size));
}

int kernel_driver::peer_address(int fd, sockaddr* address, socklen_t* size) noexcept {
    return answer(::getpeername(fd, address, size));
}

std::int64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t kernel_driver::now_ns() const noexcept {
    return monotonic_ns();
}

}  // namespace ringloop
