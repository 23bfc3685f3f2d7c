// Listening for TCP: the socket's set-up.
#include "ringloop/net/tcp_listener.hpp"

#include <netinet/tcp.h>

#include <stdexcept>

#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/make_state.hpp"

namespace ringloop::net {

using ringloop::detail::checked;

tcp_listener::tcp_listener(scheduler& home, int socket)
    : state_(detail::make_state<detail::listener_state>(home, socket)) {}

detail::listener_state& tcp_listener::state() const {
    if (state_ == nullptr || state_->socket() < 0)
        throw std::logic_error(
            "ringloop: the listener is closed, was moved from, or its scheduler has ended");
    if (scheduler* const here = scheduler::current(); here != nullptr && here != &state_->home())
        throw std::logic_error("ringloop: the listener belongs to another scheduler");
    return *state_;
}

tcp_listener tcp_listener::bind(const endpoint& at, const listen_options& options) {
    return bind(ringloop::detail::running_scheduler(), at, options);
}

tcp_listener tcp_listener::bind(scheduler& home, const endpoint& at,
                                const listen_options& options) {
    driver& io = home.io();
    const int socket = checked(io.make_socket(at.family(), SOCK_STREAM, 0), "make a socket");
    tcp_listener listener(home, socket);
    const int on = 1;
    checked(io.set_option(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "set SO_REUSEADDR");
    if (options.reuse_port)
        checked(io.set_option(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on),
                "set SO_REUSEPORT");
    if (options.no_delay)
        checked(io.set_option(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "set TCP_NODELAY");
    const std::string where = "bind to " + at.to_string();
    checked(io.bind(socket, at.address(), at.size()), where.c_str());
    checked(io.listen(socket, options.backlog), "listen");
    return listener;
}

endpoint tcp_listener::local() const {
    return detail::address_of<endpoint>(state().io(), native_handle(), &driver::local_address,
                                        "local address");
}

}  // namespace ringloop::net
