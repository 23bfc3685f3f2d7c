// unix_seqpacket: a try, and a wait where it would block. See the header.
#include "ringloop/net/seqpacket.hpp"

#include <poll.h>

#include <cerrno>
#include <stdexcept>

#include "net/descriptors.hpp"
#include "net/try_until.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/connect_await.hpp"

namespace ringloop::net {

using ringloop::detail::checked;

driver& unix_seqpacket::io() const {
    if (socket_.get() < 0)
        throw std::logic_error(
            "ringloop: the socket is closed, was moved from, or its scheduler has ended");
    return socket_.home().io();
}

task<unix_seqpacket> unix_seqpacket::connect(unix_endpoint to) {
    scheduler& home = ringloop::detail::running_scheduler();
    unix_seqpacket made(home, checked(home.io().make_socket(AF_UNIX, SOCK_SEQPACKET, 0),
                                      "make a socket to connect"));
    co_await detail::connect_await<unix_endpoint>(made.native_handle(), to);
    co_return made;
}

task<unix_seqpacket::received> unix_seqpacket::receive(std::span<std::byte> into) {
    detail::descriptor_message message(into);
    driver& door = io();
    co_await detail::try_until(native_handle(), POLLIN, "receive a message", [&] {
        message.make_room();
        return door.try_recvmmsg(native_handle(), message.list());
    });
    received taken{message.size(), message.is_cut()};
    message.take(socket_.home(), taken.descriptors);
    co_return taken;
}

task<void> unix_seqpacket::send(std::span<const std::byte> bytes,
                                std::span<const int> descriptors) {
    if (bytes.empty())
        throw std::invalid_argument("ringloop: an empty message would be read as the end");
    detail::descriptor_message message(bytes, descriptors);
    driver& door = io();
    co_await detail::try_until(native_handle(), POLLOUT, "send a message", [&] {
        return door.try_sendmmsg(native_handle(), message.list());
    });
}

void unix_seqpacket::shutdown(direction which) {
    const int result = io().shutdown(native_handle(), static_cast<int>(which));
    if (result != -ENOTCONN) checked(result, "shutdown");  // the peer was faster
}

int unix_seqpacket::release() {
    io().give_up(native_handle());
    return socket_.release();
}

unix_endpoint unix_seqpacket::local() const {
    return detail::address_of<unix_endpoint>(io(), native_handle(), &driver::local_address,
                                             "local address");
}

unix_endpoint unix_seqpacket::peer() const {
    return detail::address_of<unix_endpoint>(io(), native_handle(), &driver::peer_address,
                                             "peer address");
}

}  // namespace ringloop::net
