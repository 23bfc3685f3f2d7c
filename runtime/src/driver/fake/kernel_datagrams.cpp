// Datagram sockets: whole messages with the address of their sender, in order, no bytes between.
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "objects.hpp"

namespace ringloop::testing {
namespace {

constexpr std::size_t ip_datagram_max = 65507;
constexpr std::size_t unix_inbox_max = 10;  // messages
constexpr std::size_t charge_bytes = 64;    // of each message, beside its bytes: empty ones count

const sockaddr* raw(const socket_address& address) noexcept {
    return reinterpret_cast<const sockaddr*>(&address.bytes);
}

std::size_t charge(const simulated_datagram& message) noexcept {
    return message.bytes.size() + charge_bytes;
}

bool same(const socket_address& left, const socket_address& right) {
    return key_of(raw(left), left.size, false) == key_of(raw(right), right.size, false);
}

simulated_datagram gather(const msghdr& header) {
    simulated_datagram message;
    for (std::size_t i = 0; i < header.msg_iovlen; ++i) {
        const auto* from = static_cast<const std::byte*>(header.msg_iov[i].iov_base);
        message.bytes.insert(message.bytes.end(), from, from + header.msg_iov[i].iov_len);
    }
    return message;
}

void scatter(const simulated_datagram& message, mmsghdr& target) noexcept {
    msghdr& header = target.msg_hdr;
    std::size_t done = 0;
    for (std::size_t i = 0; i < header.msg_iovlen; ++i) {
        const std::size_t count = std::min(header.msg_iov[i].iov_len, message.bytes.size() - done);
        if (count > 0) std::memcpy(header.msg_iov[i].iov_base, message.bytes.data() + done, count);
        done += count;
    }
    target.msg_len = static_cast<unsigned>(done);
    header.msg_flags = done < message.bytes.size() ? MSG_TRUNC : 0;
    header.msg_controllen = 0;
    if (header.msg_name == nullptr) return;
    std::memcpy(header.msg_name, &message.from.bytes,
                std::min(header.msg_namelen, message.from.size));
    header.msg_namelen = message.from.size;
}

}  // namespace

int simulated_kernel::connect_datagrams(simulated_object& socket, const sockaddr* address,
                                        socklen_t size) {
    if (address->sa_family != socket.domain) return -EAFNOSUPPORT;
    if (socket.domain == AF_UNIX && datagram_socket_at(address, size) == nullptr)
        return -ECONNREFUSED;
    if (socket.local.size == 0 && socket.domain != AF_UNIX) bind_somewhere(socket);
    std::memcpy(&socket.peer.bytes, address, size);
    socket.peer.size = size;
    socket.state = socket_state::connected;
    return 0;
}

object_ref simulated_kernel::datagram_socket_at(const sockaddr* address, socklen_t size) const {
    for (const bool any : {false, true}) {
        const auto found = bound_.find(datagram_key(address, size, any));
        if (found == bound_.end()) continue;
        const object_ref socket = found->second.lock();
        if (socket != nullptr && socket->holders > 0) return socket;
    }
    return nullptr;
}

int simulated_kernel::send_datagram(simulated_object& socket, mmsghdr& message) {
    const msghdr& header = message.msg_hdr;
    const bool connected = socket.state == socket_state::connected;
    if (header.msg_name == nullptr && !connected)
        return socket.domain == AF_UNIX ? -ENOTCONN : -EDESTADDRREQ;
    socket_address to = socket.peer;
    if (header.msg_name != nullptr) {
        std::memcpy(&to.bytes, header.msg_name, header.msg_namelen);
        to.size = header.msg_namelen;
    }
    if (to.bytes.ss_family != socket.domain) return -EAFNOSUPPORT;
    if (socket.domain != AF_UNIX && port_of(raw(to)) == 0) return -EINVAL;
    if (socket.local.size == 0 && socket.domain != AF_UNIX) bind_somewhere(socket);
    simulated_datagram sent = gather(header);
    const std::size_t most = socket.domain == AF_UNIX ? limits_.socket_buffer : ip_datagram_max;
    if (sent.bytes.size() > most) return -EMSGSIZE;
    message.msg_len = static_cast<unsigned>(sent.bytes.size());
    sent.from = socket.local;
    const object_ref receiver = datagram_socket_at(raw(to), to.size);
    if (receiver == nullptr ||
        (receiver->state == socket_state::connected && !same(receiver->peer, socket.local))) {
        if (socket.domain == AF_UNIX) return receiver == nullptr ? -ECONNREFUSED : -EPERM;
        if (connected) socket.error = ECONNREFUSED;  // the answer comes after the call
        if (connected) changed(socket);
        return 0;
    }
    if (socket.domain == AF_UNIX && receiver->inbox.size() >= unix_inbox_max) {
        receiver->waiting.push_back(socket.weak_from_this());
        return -EAGAIN;
    }
    if (socket.domain != AF_UNIX && receiver->inbox_bytes > 0 &&
        receiver->inbox_bytes + charge(sent) > limits_.socket_buffer)
        return 0;  // lost
    receiver->inbox_bytes += charge(sent);
    receiver->inbox.push_back(std::move(sent));
    changed(*receiver);
    return 0;
}

int simulated_kernel::send_datagrams(simulated_object& socket, std::span<mmsghdr> messages) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (!socket.datagrams) return -EOPNOTSUPP;
    if (socket.error != 0) return -std::exchange(socket.error, 0);
    int sent = 0;
    for (mmsghdr& message : messages) {
        const int result = send_datagram(socket, message);
        if (result < 0) return sent > 0 ? sent : result;
        ++sent;
        if (socket.error != 0) break;  // the next call's
    }
    return sent;
}

int simulated_kernel::datagrams_waiting(const simulated_object& socket) const noexcept {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (socket.error != 0) return -socket.error;
    return socket.inbox.empty() ? -EAGAIN : static_cast<int>(socket.inbox.size());
}

int simulated_kernel::receive_datagrams(simulated_object& socket, std::span<mmsghdr> messages) {
    const int there = datagrams_waiting(socket);
    if (there < 0) {
        if (there != -EAGAIN) socket.error = 0;
        return there;
    }
    int taken = 0;
    for (mmsghdr& message : messages) {
        if (socket.inbox.empty()) break;
        scatter(socket.inbox.front(), message);
        socket.inbox_bytes -= charge(socket.inbox.front());
        socket.inbox.pop_front();
        ++taken;
    }
    tell_waiting_senders(socket);
    return taken;
}

void simulated_kernel::tell_waiting_senders(simulated_object& receiver) const {
    const auto waiting = std::exchange(receiver.waiting, {});
    for (const auto& sender : waiting) {
        if (const object_ref there = sender.lock(); there != nullptr) changed(*there);
    }
}

std::uint32_t simulated_kernel::datagram_events(const simulated_object& socket) const noexcept {
    std::uint32_t events = POLLOUT;
    if (!socket.inbox.empty()) events |= POLLIN;
    if (socket.error != 0) events |= POLLERR;
    // As Linux: a sender that is not connected is always told to try.
    if (socket.domain == AF_UNIX && socket.state == socket_state::connected) {
        const object_ref receiver = datagram_socket_at(raw(socket.peer), socket.peer.size);
        if (receiver != nullptr && receiver->inbox.size() >= unix_inbox_max)
            events &= ~static_cast<std::uint32_t>(POLLOUT);
    }
    return events;
}

}  // namespace ringloop::testing
