// unix_stream: a connected Unix stream socket. Reading, writing, closing, threads, cancels:
// byte_stream.hpp; beside bytes it carries open descriptors.
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

class unix_stream : public byte_stream {
  public:
    static constexpr std::size_t descriptors_max = 253;  // the kernel's, a message

    // Cancel: the connection attempt is given up, the socket closed.
    [[nodiscard]] static task<unix_stream> connect(unix_endpoint to);
    // Takes over a connected, non-blocking socket.
    unix_stream(scheduler& home, int socket) : byte_stream(home, socket) {}
    unix_stream() noexcept = default;

    // Sends at least one byte of `bytes` (not empty), and with the first of them all of
    // `descriptors`, which stay the caller's. Returns the bytes sent. Throws std::invalid_argument
    // for no bytes, or for too many descriptors.
    // Cancel loses nothing: a count that was faster is returned.
    [[nodiscard]] task<std::size_t> send_with(std::span<const std::byte> bytes,
                                              std::span<const int> descriptors);
    struct received {
        std::size_t size = 0;  // bytes read; 0 at the end of the stream
        std::vector<received_descriptor> descriptors;
    };
    // Bytes, and the descriptors that were sent with the first of them; they are close-on-exec.
    // Descriptors arrive only here: receive() and read_some() drop them, so a stream that carries
    // some is read by receive_with() alone (std::logic_error after a receive()).
    // Throws ringloop::error (EMSGSIZE) if more than `descriptors_max` came, or fewer could be
    // opened: those that could are closed. Cancel loses nothing.
    [[nodiscard]] task<received> receive_with(std::span<std::byte> into);

    [[nodiscard]] unix_endpoint local() const;
    [[nodiscard]] unix_endpoint peer() const;
};

}  // namespace ringloop::net
