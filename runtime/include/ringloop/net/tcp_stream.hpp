// tcp_stream: a connected TCP socket. Reading, writing, closing, threads, cancels: byte_stream.hpp.
#pragma once

#include "ringloop/net/byte_stream.hpp"
#include "ringloop/net/endpoint.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net {

class tcp_stream : public byte_stream {
  public:
    // Cancel: the connection attempt is given up, the socket closed.
    [[nodiscard]] static task<tcp_stream> connect(endpoint to);
    // The same; what failed goes to `failure`, which outlives the await, and the stream is empty.
    [[nodiscard]] static task<tcp_stream> connect(endpoint to, std::error_code& failure);
    // Takes over a connected, non-blocking socket.
    tcp_stream(scheduler& home, int socket) : byte_stream(home, socket) {}
    tcp_stream() noexcept = default;

    void set_no_delay(bool on);
    [[nodiscard]] endpoint local() const;
    [[nodiscard]] endpoint peer() const;
};

}  // namespace ringloop::net
