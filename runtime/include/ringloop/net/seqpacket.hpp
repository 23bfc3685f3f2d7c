// unix_seqpacket: a connected Unix socket that carries messages, each whole, in their order, with
// an end (SOCK_SEQPACKET); and with a message open descriptors.
//
//     auto listener = net::unix_seqpacket_listener::bind(at);        unix_listener.hpp
//     auto peer = co_await listener.accept();
//     while (true) {
//         const auto got = co_await peer.receive(buffer);
//         if (got.size == 0) break;
//         co_await peer.send(std::span(buffer).first(got.size));
//     }
//
// A message is tried at once; only if there is none, or no room, does the coroutine wait until the
// socket is ready. Owns the descriptor; move-only; the destructor closes. Thread: that of the
// scheduler it was made on. Any number of coroutines may receive or send at once; each message goes
// to one of them.
// Errors: ringloop::error (EPIPE, ECONNRESET, EMSGSIZE …). Cancel: loses nothing and sends nothing.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ringloop/detail/resident.hpp"
#include "ringloop/net/byte_stream.hpp"
#include "ringloop/net/received_fd.hpp"
#include "ringloop/net/unix_endpoint.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net {

class unix_seqpacket {
  public:
    static constexpr std::size_t descriptors_max = 253;  // the kernel's, a message

    // Cancel: the connection attempt is given up, the socket closed.
    [[nodiscard]] static task<unix_seqpacket> connect(unix_endpoint to);
    // Takes over a connected, non-blocking socket.
    unix_seqpacket(scheduler& home, int socket) noexcept : socket_(home, socket) {}
    unix_seqpacket() noexcept = default;

    struct received {
        std::size_t size = 0;    // bytes put into the buffer; 0 at the end
        bool truncated = false;  // the message was longer than the buffer: the rest is gone
        std::vector<received_descriptor> descriptors = {};  // close-on-exec
    };
    // Throws ringloop::error (EMSGSIZE) if fewer descriptors could be opened than came: those that
    // could are closed, and the message is gone.
    [[nodiscard]] task<received> receive(std::span<std::byte> into);
    // The whole message, with all of `descriptors`, which stay the caller's. std::invalid_argument
    // for no bytes, which the peer would take for the end, or too many descriptors.
    [[nodiscard]] task<void> send(std::span<const std::byte> bytes,
                                  std::span<const int> descriptors = {});

    // Immediate.
    void shutdown(direction which);
    void close() noexcept { socket_.close(); }
    // Gives the socket up, open, for another scheduler. Nobody may be waiting on it.
    [[nodiscard]] int release();
    [[nodiscard]] explicit operator bool() const noexcept { return socket_.get() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return socket_.get(); }
    [[nodiscard]] unix_endpoint local() const;
    [[nodiscard]] unix_endpoint peer() const;

  private:
    [[nodiscard]] driver& io() const;
    ringloop::detail::resident_descriptor socket_;
};

}  // namespace ringloop::net
