// tcp_stream: making a connection and asking about it.
#include "ringloop/net/tcp_stream.hpp"

#include <netinet/tcp.h>

#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/connect_await.hpp"

namespace ringloop::net {

task<tcp_stream> tcp_stream::connect(endpoint to) {
    scheduler& home = ringloop::detail::running_scheduler();
    const int socket = ringloop::detail::checked(home.io().make_socket(to.family(), SOCK_STREAM, 0),
                                                 "make a socket to connect");
    tcp_stream stream(home, socket);
    co_await detail::connect_await<endpoint>(socket, to);
    co_return stream;
}

task<tcp_stream> tcp_stream::connect(endpoint to, std::error_code& failure) {
    failure.clear();
    try {
        co_return co_await connect(to);
    } catch (const error& e) {
        failure = e.code();
    }
    co_return tcp_stream();
}

void tcp_stream::set_no_delay(bool on) {
    const int value = on ? 1 : 0;
    ringloop::detail::checked(
        state().io().set_option(native_handle(), IPPROTO_TCP, TCP_NODELAY, &value, sizeof value),
        "set TCP_NODELAY");
}

endpoint tcp_stream::local() const {
    return detail::address_of<endpoint>(state().io(), native_handle(), &driver::local_address,
                                        "local address");
}

endpoint tcp_stream::peer() const {
    return detail::address_of<endpoint>(state().io(), native_handle(), &driver::peer_address,
                                        "peer address");
}

}  // namespace ringloop::net
