// tcp_listener: a bound, listening TCP socket.
//
// Owns the descriptor and the accept armed on it; the destructor takes that back, closes the
// connections that nobody took, and closes. Move-only. Thread: that of its scheduler. One accept()
// at a time (std::logic_error).
#pragma once

#include <memory>

#include "ringloop/net/detail/listener_state.hpp"
#include "ringloop/net/endpoint.hpp"
#include "ringloop/net/tcp_stream.hpp"

namespace ringloop::net {

struct listen_options {
    int backlog = 1024;
    bool reuse_port = false;
    bool no_delay = true;  // inherited by accepted connections
};

class tcp_listener {
  public:
    // On the running scheduler, or on the one given. Port 0: see local(). Throws ringloop::error.
    [[nodiscard]] static tcp_listener bind(const endpoint& at, const listen_options& options = {});
    [[nodiscard]] static tcp_listener bind(scheduler& home, const endpoint& at,
                                           const listen_options& options = {});
    tcp_listener(tcp_listener&&) noexcept = default;
    tcp_listener& operator=(tcp_listener&&) noexcept = default;

    // The next connection. A connection that its peer gave up before is skipped; while descriptors
    // or memory are short it waits. Cancel loses nothing: a connection that came meanwhile is the
    // next accept's.
    [[nodiscard]] detail::accept_await<tcp_stream> accept() {
        return detail::accept_await<tcp_stream>(state());
    }
    void close() noexcept { state_.reset(); }
    [[nodiscard]] endpoint local() const;
    [[nodiscard]] int native_handle() const noexcept { return state_ ? state_->socket() : -1; }

  private:
    tcp_listener(scheduler& home, int socket);
    detail::listener_state& state() const;
    ringloop::detail::resident_ptr<detail::listener_state> state_;
};

}  // namespace ringloop::net
