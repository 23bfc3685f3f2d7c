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
    if (descriptors.size() > descriptors_max)
        throw std::invalid_argument("ringloop: more descriptors than a message takes (253)");
    detail::control_buffer control;
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    mmsghdr message{};
    message.msg_hdr.msg_iov = &piece;
    message.msg_hdr.msg_iovlen = 1;
    detail::put_descriptors(message.msg_hdr, control, descriptors);
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLOUT, "send descriptors", [&] {
        return door.try_sendmmsg(native_handle(), {&message, 1});
    });
    co_return message.msg_len;
}

task<unix_stream::received> unix_stream::receive_with(std::span<std::byte> into) {
    if (state().receives_by_itself())
        throw std::logic_error("ringloop: receive_with() on a stream that receive() has read from");
    detail::control_buffer control;
    iovec piece{into.data(), into.size()};
    mmsghdr message{};
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLIN, "receive descriptors", [&] {
        message = {};
        message.msg_hdr.msg_iov = &piece;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.bytes.data();
        message.msg_hdr.msg_controllen = detail::control_size;
        return door.try_recvmmsg(native_handle(), {&message, 1});
    });
    received taken{message.msg_len, {}};
    detail::take_descriptors(state().home(), message.msg_hdr, taken.descriptors);
    if ((message.msg_hdr.msg_flags & MSG_CTRUNC) != 0)
        ringloop::detail::throw_error(EMSGSIZE, "receive descriptors");
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
