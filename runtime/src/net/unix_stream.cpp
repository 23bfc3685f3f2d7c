// unix_stream: making a connection, and descriptors that travel over it.
//
// Both ways try at once and then wait until the socket is ready: a descriptor in flight in the ring
// would be lost with a cancelled operation.
#include "ringloop/net/unix_stream.hpp"

#include <poll.h>

#include <cerrno>
#include <stdexcept>

#include "net/descriptors.hpp"
#include "net/try_until.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/connect_await.hpp"

namespace ringloop::net {

task<unix_stream> unix_stream::connect(unix_endpoint to) {
    scheduler& home = ringloop::detail::running_scheduler();
    const int socket = ringloop::detail::checked(home.io().make_socket(AF_UNIX, SOCK_STREAM, 0),
                                                 "make a socket to connect");
    unix_stream stream(home, socket);
    co_await detail::connect_await<unix_endpoint>(socket, to);
    co_return stream;
}

task<std::size_t> unix_stream::send_with(std::span<const std::byte> bytes,
                                         std::span<const int> descriptors) {
    if (bytes.empty())
        throw std::invalid_argument("ringloop: descriptors travel with at least one byte");
    detail::descriptor_message message(bytes, descriptors);
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLOUT, "send descriptors", [&] {
        return door.try_sendmmsg(native_handle(), message.list());
    });
    co_return message.size();
}

task<unix_stream::received> unix_stream::receive_with(std::span<std::byte> into) {
    if (state().receives_by_itself())
        throw std::logic_error("ringloop: receive_with() on a stream that receive() has read from");
    detail::descriptor_message message(into);
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLIN, "receive descriptors", [&] {
        message.make_room();
        return door.try_recvmmsg(native_handle(), message.list());
    });
    received taken{message.size(), {}};
    message.take(state().home(), taken.descriptors);
    co_return taken;
}

unix_endpoint unix_stream::local() const {
    return detail::address_of<unix_endpoint>(state().io(), native_handle(), &driver::local_address,
                                             "local address");
}

unix_endpoint unix_stream::peer() const {
    return detail::address_of<unix_endpoint>(state().io(), native_handle(), &driver::peer_address,
                                             "peer address");
}

}  // namespace ringloop::net
