// objects: what simulated descriptors refer to. Private to the simulated kernel and the fake
// driver.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringloop/testing/simulated_kernel.hpp"

namespace ringloop::testing {

// One direction of a stream: bytes between one writer and one reader.
struct byte_channel {
    explicit byte_channel(std::size_t size_max) : capacity(size_max) {}
    std::size_t capacity;
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    bool ended = false;  // the writer is through: end of stream after the bytes
    bool deaf = false;   // nobody reads any more

    [[nodiscard]] std::size_t size() const noexcept { return bytes.size() - head; }
    [[nodiscard]] std::size_t space() const noexcept {
        return size() >= capacity ? 0 : capacity - size();
    }
    void push(const void* data, std::size_t count) {
        if (head > 65536 || head == bytes.size()) {
            bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
            head = 0;
        }
        const auto* from = static_cast<const std::byte*>(data);
        bytes.insert(bytes.end(), from, from + count);
    }
    void pop(void* data, std::size_t count) {
        std::memcpy(data, bytes.data() + head, count);
        head += count;
    }
};

struct socket_address {
    sockaddr_storage bytes = {};
    socklen_t size = 0;
};

// Names one address; `any` names the wildcard of the same family and port (kernel_sockets.cpp).
[[nodiscard]] std::string key_of(const sockaddr* address, socklen_t size, bool any);
[[nodiscard]] std::uint16_t port_of(const sockaddr* address) noexcept;  // 0: none
// The key under which a datagram socket is bound: apart from listeners.
[[nodiscard]] inline std::string datagram_key(const sockaddr* address, socklen_t size, bool any) {
    return "datagrams " + key_of(address, size, any);
}

struct simulated_datagram {
    socket_address from;
    std::vector<std::byte> bytes;
};

struct simulated_file {
    std::vector<std::byte> bytes;
    std::uint64_t inode = 0;
    mode_t mode = 0;
    bool directory = false;
    unsigned names = 1;
};

// The directory that a clean absolute path is in.
[[nodiscard]] std::string parent_of(const std::string& path);

enum class object_kind { socket, listener, pipe_reader, pipe_writer, file, foreign };
enum class socket_state { fresh, connecting, connected };

struct simulated_object : std::enable_shared_from_this<simulated_object> {
    explicit simulated_object(object_kind what) : kind(what) {}
    object_kind kind;
    unsigned holders = 0;  // descriptors and operations in flight

    // sockets and pipes
    int domain = AF_INET;
    socket_state state = socket_state::fresh;
    socket_address local;
    socket_address peer;
    std::shared_ptr<byte_channel> in;
    std::shared_ptr<byte_channel> out;
    std::weak_ptr<simulated_object> other;
    int error = 0;      // shown once
    bool dead = false;  // reset: no address, no more bytes out
    bool shut_read = false;
    std::map<std::pair<int, int>, std::vector<std::byte>> options;
    std::deque<object_ref> backlog;  // listener: connected, not yet accepted
    std::size_t backlog_max = 0;
    // A listener's connects beyond the backlog; senders that found a datagram socket full.
    std::vector<std::weak_ptr<simulated_object>> waiting;
    bool datagrams = false;  // a datagram socket: an inbox in place of the channels
    std::deque<simulated_datagram> inbox;
    std::size_t inbox_bytes = 0;

    // files
    std::shared_ptr<simulated_file> file;
    std::string path;
    std::int64_t position = 0;
    int flags = 0;

    std::vector<std::uint64_t> parked;  // the driver's operations that wait for on_change
};

}  // namespace ringloop::testing
