// unix_stream: making a connection, and descriptors that travel over it.
//
// Both ways try at once and then wait until the socket is ready: a descriptor in flight in the ring
// would be lost with a cancelled operation.
#include "ringloop/net/unix_stream.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "net/try_until.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/connect_await.hpp"

namespace ringloop::net {
namespace {

constexpr std::size_t control_size = CMSG_SPACE(unix_stream::descriptors_max * sizeof(int));
struct control_buffer {
    alignas(cmsghdr) std::array<char, control_size> bytes;
};

void put_descriptors(msghdr& message, control_buffer& control, std::span<const int> descriptors) {
    if (descriptors.empty()) return;
    control = {};
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
}

void take_descriptors(scheduler& home, msghdr& message,
                      std::vector<received_descriptor>& descriptors) {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t size = head->cmsg_len - CMSG_LEN(0);
        std::vector<int> numbers(size / sizeof(int));
        std::memcpy(numbers.data(), CMSG_DATA(head), size);
        descriptors.reserve(descriptors.size() + numbers.size());
        for (const int fd : numbers) descriptors.emplace_back(home, fd);
    }
}

}  // namespace

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
    control_buffer control;
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    mmsghdr message{};
    message.msg_hdr.msg_iov = &piece;
    message.msg_hdr.msg_iovlen = 1;
    put_descriptors(message.msg_hdr, control, descriptors);
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLOUT, "send descriptors", [&] {
        return door.try_sendmmsg(native_handle(), {&message, 1});
    });
    co_return message.msg_len;
}

task<unix_stream::received> unix_stream::receive_with(std::span<std::byte> into) {
    if (state().receives_by_itself())
        throw std::logic_error("ringloop: receive_with() on a stream that receive() has read from");
    control_buffer control;
    iovec piece{into.data(), into.size()};
    mmsghdr message{};
    driver& door = state().io();
    co_await detail::try_until(native_handle(), POLLIN, "receive descriptors", [&] {
        message = {};
        message.msg_hdr.msg_iov = &piece;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.bytes.data();
        message.msg_hdr.msg_controllen = control_size;
        return door.try_recvmmsg(native_handle(), {&message, 1});
    });
    received taken{message.msg_len, {}};
    take_descriptors(state().home(), message.msg_hdr, taken.descriptors);
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
