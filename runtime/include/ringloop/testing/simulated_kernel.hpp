// simulated_kernel: descriptors, stream and datagram sockets, pipes and files in memory, without
// system calls.
//
// It answers like Linux where programs can tell: descriptors are the lowest free number (from
// `first_descriptor`, so that a real system call on one fails with EBADF), a close with unread
// bytes resets the peer, bytes before a reset are still readable, a descriptor's object lives until
// the last operation on it has ended. Whatever would block returns -EAGAIN; `on_change` tells which
// object may be tried again.
//
// Thread: one at a time. Nothing is random here and nothing fails without cause: faults are the
// fake driver's.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct statx;

namespace ringloop::testing {

inline constexpr int first_descriptor = 20'000;

struct simulated_object;
using object_ref = std::shared_ptr<simulated_object>;
struct simulated_file;

struct kernel_limits {
    std::size_t socket_buffer = 16384;  // bytes, each direction
    std::size_t pipe_buffer = 4096;
    unsigned descriptors_max = 4096;
    // Real descriptors are accepted too, as something that never becomes ready.
    bool foreign_descriptors = false;
};

class simulated_kernel {
  public:
    explicit simulated_kernel(const kernel_limits& limits = {});
    ~simulated_kernel();
    simulated_kernel(const simulated_kernel&) = delete;
    simulated_kernel& operator=(const simulated_kernel&) = delete;

    // ---- descriptors: a number, or a negated errno
    [[nodiscard]] object_ref find(int fd) const noexcept;  // null: EBADF
    int install(const object_ref& object);
    int close(int fd);
    int duplicate(int fd);
    // An operation in flight holds its object open beyond close().
    void hold(simulated_object& object) noexcept;
    void drop(simulated_object& object);
    [[nodiscard]] std::size_t open_descriptors() const noexcept { return open_; }
    [[nodiscard]] std::string describe_descriptors() const;

    // ---- sockets and pipes
    int make_socket(int domain, int type, int protocol);
    int bind(simulated_object& socket, const sockaddr* address, socklen_t size);
    int listen(simulated_object& socket, int backlog);
    int connect(const object_ref& socket, const sockaddr* address, socklen_t size);
    // connect() would have to wait for room in the listener's backlog.
    [[nodiscard]] bool connect_waits(const simulated_object& socket, const sockaddr* address,
                                     socklen_t size) const;
    int accept(simulated_object& listener);
    int shutdown(simulated_object& socket, int how);
    int set_option(simulated_object& socket, int level, int name, const void* value,
                   socklen_t size);
    int get_option(simulated_object& socket, int level, int name, void* value, socklen_t* size);
    int local_address(simulated_object& socket, sockaddr* address, socklen_t* size);
    int peer_address(simulated_object& socket, sockaddr* address, socklen_t* size);
    int socket_pair(int (&fds)[2]);
    int pipe(int (&fds)[2]);  // [0] reads, [1] writes
    // The connection dies as by a reset from the network: both ends see ECONNRESET.
    void break_stream(simulated_object& socket);
    // Takes the oldest waiting connection away and resets it, as if its peer had gone. False: none.
    bool abort_waiting_connection(simulated_object& listener);

    // ---- datagram sockets (kernel_datagrams.cpp): how many messages were moved, or a negated
    // errno. A full receiver loses what comes over IP and holds back what comes over AF_UNIX; a
    // connected IP sender to a port where nobody is learns it by its next call (ECONNREFUSED).
    int receive_datagrams(simulated_object& socket, std::span<mmsghdr> messages);
    int send_datagrams(simulated_object& socket, std::span<mmsghdr> messages);
    [[nodiscard]] int datagrams_waiting(const simulated_object& socket) const noexcept;

    // ---- moving bytes through streams, pipes and files (offset -1: the position)
    ssize_t receive(simulated_object& object, std::span<const iovec> pieces, std::size_t max);
    ssize_t send(simulated_object& object, std::span<const iovec> pieces, std::size_t max);
    ssize_t read_file(simulated_object& object, void* data, std::size_t size, std::int64_t offset);
    ssize_t write_file(simulated_object& object, const void* data, std::size_t size,
                       std::int64_t offset);
    // What receive() or send() would answer now, moving nothing: bytes, 0, or a negated errno.
    [[nodiscard]] ssize_t receivable(const simulated_object& object) const noexcept;
    [[nodiscard]] ssize_t sendable(const simulated_object& object) const noexcept;
    [[nodiscard]] std::uint32_t ready_events(const simulated_object& object) const noexcept;
    [[nodiscard]] bool is_file(const simulated_object& object) const noexcept;
    [[nodiscard]] bool is_socket(const simulated_object& object) const noexcept;

    // ---- the file system: absolute paths, or relative to a directory's descriptor (AT_FDCWD: /)
    int open(int directory, const char* path, int flags, mode_t mode);
    int describe(int directory, const char* path, int flags, struct statx* result);
    int rename(int directory, const char* path, int new_directory, const char* new_path,
               int flags);
    int unlink(int directory, const char* path, int flags);  // AT_REMOVEDIR: a directory
    int make_directory(int directory, const char* path, mode_t mode);
    int link(int directory, const char* path, int new_directory, const char* new_path);
    int make_symlink(const char* target, int directory, const char* path);
    void add_directory(const std::string& path);
    void add_file(const std::string& path, std::string_view content);
    [[nodiscard]] bool has_file(const std::string& path) const;
    [[nodiscard]] std::string file_content(const std::string& path) const;

    // ---- tests: the same for plain descriptors
    ssize_t receive_bytes(int fd, void* data, std::size_t size);
    ssize_t send_bytes(int fd, const void* data, std::size_t size);

    // Called when an operation that would have blocked on the object might not any more.
    std::function<void(simulated_object&)> on_change;

  private:
    void last_holder_left(simulated_object& object);
    void changed(simulated_object& object) const;
    object_ref listener_at(const simulated_object& socket, const sockaddr* address,
                           socklen_t size) const;
    int finish_connect(const object_ref& socket, simulated_object& listener);
    void admit_waiting(simulated_object& listener);
    void bind_somewhere(simulated_object& socket);
    int connect_datagrams(simulated_object& socket, const sockaddr* address, socklen_t size);
    object_ref datagram_socket_at(const sockaddr* address, socklen_t size) const;
    int send_datagram(simulated_object& socket, mmsghdr& message);
    void tell_waiting_senders(simulated_object& receiver) const;
    [[nodiscard]] std::uint32_t datagram_events(const simulated_object& socket) const noexcept;
    std::string resolve(int directory, const char* path) const;
    int open_at(const std::string& path, int flags, mode_t mode, object_ref& opened);
    // What the last part of a path stands for, links followed: "" if they go in a circle.
    [[nodiscard]] std::string follow(std::string path) const;
    // Whether a new name may stand there: 0, or a negated errno.
    [[nodiscard]] int may_name(const std::string& path) const;
    [[nodiscard]] bool has_entries(const std::string& directory) const;

    kernel_limits limits_;
    std::vector<object_ref> table_;
    object_ref foreign_;
    std::size_t open_ = 0;
    std::uint16_t next_port_ = 40000;
    std::uint64_t next_inode_ = 2;
    std::map<std::string, std::weak_ptr<simulated_object>> bound_;  // by address
    std::map<std::string, std::shared_ptr<simulated_file>> files_;  // by absolute path
};

}  // namespace ringloop::testing
