// kernel_driver: what both real bodies do alike: the immediate and the cold verbs, the clock, the
// memory of the receive pool, and the eventfd that wakes a sleeper.
//
// Thread: the driver's; body_signal() any. No verb blocks.
#pragma once

#include "ringloop/driver.hpp"

namespace ringloop {

class kernel_driver : public driver {
  public:
    ~kernel_driver() override;

    ssize_t try_send(int fd, std::span<const iovec> pieces) noexcept override;
    ssize_t try_receive(int fd, std::span<const iovec> pieces) noexcept override;
    int try_recvmmsg(int fd, std::span<mmsghdr> messages) noexcept override;
    int try_sendmmsg(int fd, std::span<mmsghdr> messages) noexcept override;
    ssize_t try_pread(int fd, void* data, std::size_t size, std::int64_t offset) noexcept override;
    ssize_t try_write(int fd, std::span<const iovec> pieces) noexcept override;
    int close(int fd) noexcept override;
    int inspect(int fd, descriptor_facts& facts) noexcept override;

    int make_socket(int domain, int type, int protocol) noexcept override;
    int make_pipe(int (&ends)[2]) noexcept override;
    int bind(int fd, const sockaddr* address, socklen_t size) noexcept override;
    int listen(int fd, int backlog) noexcept override;
    int shutdown(int fd, int how) noexcept override;
    int set_option(int fd, int level, int name, const void* value,
                   socklen_t size) noexcept override;
    int get_option(int fd, int level, int name, void* value, socklen_t* size) noexcept override;
    int local_address(int fd, sockaddr* address, socklen_t* size) noexcept override;
    int peer_address(int fd, sockaddr* address, socklen_t* size) noexcept override;

    std::int64_t now_ns() const noexcept override;
    void abandon_to_poller_after_fork() noexcept override;

    void explain(std::string reason, std::vector<std::string> missing) {
        capabilities_.reason = std::move(reason);
        capabilities_.missing_opcodes = std::move(missing);
    }

  protected:
    // Throws std::system_error.
    explicit kernel_driver(const driver_config& config);

    // Accepts what waits for a repeating accept, each a completion with `more`; a share of a turn
    // at most. Returns 0 if more may wait, else the negated errno that ended it (-EAGAIN: no more).
    int accept_waiting(operation& op) noexcept;
    void body_signal() noexcept override;
    // In a forked child: closes the eventfd and forgets the pool, which is not mapped there.
    void abandon_kernel_parts() noexcept;

    int wake_fd_ = -1;
    int placeholder_fd_ = -1;
    bool abandoned_ = false;
    bool knows_no_signal_ = true;  // RWF_NOSIGNAL, of Linux 6.18; until it was refused
    std::size_t pool_bytes_ = 0;
};

// Anonymous zeroed memory that a forked child does not inherit. Throws std::system_error.
[[nodiscard]] void* map_memory(std::size_t bytes, const char* purpose);
void unmap_memory(void* mapped, std::size_t bytes) noexcept;

}  // namespace ringloop
