// Stream sockets: addresses, listeners, connections, resets.
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

#include "objects.hpp"

namespace ringloop::testing {

std::uint16_t port_of(const sockaddr* address) noexcept {
    if (address->sa_family == AF_INET)
        return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
    if (address->sa_family == AF_INET6)
        return ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port);
    return 0;
}

namespace {

void set_port(sockaddr_storage& address, std::uint16_t port) noexcept {
    if (address.ss_family == AF_INET)
        reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
    if (address.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
}

}  // namespace

std::string key_of(const sockaddr* address, socklen_t size, bool any) {
    std::string key = std::to_string(address->sa_family) + ":";
    if (address->sa_family == AF_INET) {
        const auto* in = reinterpret_cast<const sockaddr_in*>(address);
        return key + std::to_string(port_of(address)) + ":" +
               std::to_string(any ? 0 : in->sin_addr.s_addr);
    }
    if (address->sa_family == AF_INET6) {
        const auto* in = reinterpret_cast<const sockaddr_in6*>(address);
        const auto* bytes = reinterpret_cast<const char*>(&in->sin6_addr);
        return key + std::to_string(port_of(address)) + ":" +
               (any ? std::string(sizeof in->sin6_addr, '\0')
                    : std::string(bytes, sizeof in->sin6_addr));
    }
    return key + std::string(reinterpret_cast<const char*>(address), size);
}

namespace {

void copy_out(const socket_address& from, sockaddr* address, socklen_t* size) noexcept {
    std::memcpy(address, &from.bytes, std::min(*size, from.size));
    *size = from.size;
}

}  // namespace

int simulated_kernel::make_socket(int domain, int type, int) {
    const int kind = type & 0xf;
    if (kind != SOCK_STREAM && kind != SOCK_DGRAM) return -EPROTONOSUPPORT;
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) return -EAFNOSUPPORT;
    const auto socket = std::make_shared<simulated_object>(object_kind::socket);
    socket->domain = domain;
    socket->datagrams = kind == SOCK_DGRAM;
    return install(socket);
}

int simulated_kernel::bind(simulated_object& socket, const sockaddr* address, socklen_t size) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (address->sa_family != socket.domain || size > sizeof(sockaddr_storage)) return -EINVAL;
    if (socket.local.size != 0) return -EINVAL;
    socket_address local;
    std::memcpy(&local.bytes, address, size);
    local.size = size;
    const auto* raw = reinterpret_cast<const sockaddr*>(&local.bytes);
    const auto key = [&] {
        return socket.datagrams ? datagram_key(raw, size, false) : key_of(raw, size, false);
    };
    if (socket.domain != AF_UNIX && port_of(raw) == 0) {
        do set_port(local.bytes, next_port_++);
        while (!bound_[key()].expired());
    }
    if (!bound_[key()].expired()) return -EADDRINUSE;
    socket.local = local;
    if (socket.datagrams) bound_[key()] = socket.weak_from_this();
    return 0;
}

int simulated_kernel::listen(simulated_object& socket, int backlog) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (socket.datagrams) return -EOPNOTSUPP;
    if (socket.state != socket_state::fresh) return -EINVAL;
    if (socket.local.size == 0) bind_somewhere(socket);
    socket.kind = object_kind::listener;
    socket.backlog_max = static_cast<std::size_t>(std::max(backlog, 1));
    for (const object_ref& entry : table_) {
        if (entry.get() != &socket) continue;
        auto& place = bound_[key_of(reinterpret_cast<const sockaddr*>(&socket.local.bytes),
                                    socket.local.size, false)];
        const object_ref there = place.lock();
        if (there != nullptr && there.get() != &socket) return -EADDRINUSE;
        place = entry;
    }
    return 0;
}

void simulated_kernel::bind_somewhere(simulated_object& socket) {
    sockaddr_storage address = {};
    address.ss_family = static_cast<sa_family_t>(socket.domain);
    socklen_t size = sizeof(sa_family_t);
    if (socket.domain == AF_INET) {
        reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        size = sizeof(sockaddr_in);
    } else if (socket.domain == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
        size = sizeof(sockaddr_in6);
    }
    if (socket.domain != AF_UNIX) set_port(address, next_port_++);
    std::memcpy(&socket.local.bytes, &address, size);
    socket.local.size = size;
    if (socket.datagrams && socket.domain != AF_UNIX) {
        const auto* raw = reinterpret_cast<const sockaddr*>(&socket.local.bytes);
        bound_[datagram_key(raw, size, false)] = socket.weak_from_this();
    }
}

object_ref simulated_kernel::listener_at(const simulated_object& socket, const sockaddr* address,
                                         socklen_t size) const {
    if (address->sa_family != socket.domain) return nullptr;
    for (const bool any : {false, true}) {
        const auto found = bound_.find(key_of(address, size, any));
        if (found == bound_.end()) continue;
        const object_ref listener = found->second.lock();
        if (listener != nullptr && listener->kind == object_kind::listener && listener->holders > 0)
            return listener;
    }
    return nullptr;
}

int simulated_kernel::connect(const object_ref& socket, const sockaddr* address, socklen_t size) {
    if (!is_socket(*socket)) return -ENOTSOCK;
    if (socket->datagrams) return connect_datagrams(*socket, address, size);
    if (socket->kind == object_kind::listener) return -EISCONN;
    if (socket->state == socket_state::connected) return -EISCONN;
    if (socket->error != 0) return -std::exchange(socket->error, 0);
    if (socket->state == socket_state::connecting) return -EAGAIN;
    const object_ref listener = listener_at(*socket, address, size);
    if (listener == nullptr) return -ECONNREFUSED;
    if (socket->local.size == 0) bind_somewhere(*socket);
    std::memcpy(&socket->peer.bytes, address, size);
    socket->peer.size = size;
    if (listener->backlog.size() >= listener->backlog_max) {
        socket->state = socket_state::connecting;
        listener->waiting.push_back(socket);
        return -EAGAIN;
    }
    return finish_connect(socket, *listener);
}

bool simulated_kernel::connect_waits(const simulated_object& socket, const sockaddr* address,
                                     socklen_t size) const {
    if (socket.kind != object_kind::socket || socket.datagrams) return false;
    if (socket.state != socket_state::fresh) return false;
    const object_ref listener = listener_at(socket, address, size);
    return listener != nullptr && listener->backlog.size() >= listener->backlog_max;
}

int simulated_kernel::finish_connect(const object_ref& socket, simulated_object& listener) {
    const auto server = std::make_shared<simulated_object>(object_kind::socket);
    server->domain = socket->domain;
    server->local = socket->peer;
    server->peer = socket->local;
    server->out = socket->in = std::make_shared<byte_channel>(limits_.socket_buffer);
    server->in = socket->out = std::make_shared<byte_channel>(limits_.socket_buffer);
    server->other = socket;
    socket->other = server;
    server->state = socket->state = socket_state::connected;
    hold(*server);  // the backlog
    listener.backlog.push_back(server);
    changed(listener);
    return 0;
}

void simulated_kernel::admit_waiting(simulated_object& listener) {
    while (!listener.waiting.empty() && listener.backlog.size() < listener.backlog_max) {
        const object_ref socket = listener.waiting.front().lock();
        listener.waiting.erase(listener.waiting.begin());
        if (socket == nullptr || socket->state != socket_state::connecting) continue;
        if (socket->holders == 0) continue;
        finish_connect(socket, listener);
        changed(*socket);
    }
}

int simulated_kernel::accept(simulated_object& listener) {
    if (listener.kind != object_kind::listener) return is_socket(listener) ? -EINVAL : -ENOTSOCK;
    if (listener.backlog.empty()) return -EAGAIN;
    const object_ref socket = listener.backlog.front();
    const int fd = install(socket);
    if (fd < 0) return fd;
    listener.backlog.pop_front();
    drop(*socket);
    admit_waiting(listener);
    return fd;
}

bool simulated_kernel::abort_waiting_connection(simulated_object& listener) {
    if (listener.backlog.empty()) return false;
    const object_ref socket = listener.backlog.front();
    listener.backlog.pop_front();
    break_stream(*socket);
    drop(*socket);
    return true;
}

void simulated_kernel::break_stream(simulated_object& socket) {
    const object_ref other = socket.other.lock();
    for (simulated_object* end : {&socket, other.get()}) {
        if (end == nullptr || end->dead) continue;
        if (end->out != nullptr) end->out->ended = true;
        if (is_socket(*end)) end->error = ECONNRESET;
        end->dead = true;
        changed(*end);
    }
}

int simulated_kernel::shutdown(simulated_object& socket, int how) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (socket.kind == object_kind::listener) return 0;
    if (socket.state != socket_state::connected || socket.dead) return -ENOTCONN;
    if (socket.datagrams) return 0;
    if (how == SHUT_RD || how == SHUT_RDWR) socket.shut_read = true;
    if (how == SHUT_WR || how == SHUT_RDWR) socket.out->ended = true;
    changed(socket);
    if (const object_ref other = socket.other.lock(); other != nullptr) changed(*other);
    return 0;
}

int simulated_kernel::set_option(simulated_object& socket, int level, int name, const void* value,
                                 socklen_t size) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (level == SOL_UDP) return -ENOPROTOOPT;
    const auto* bytes = static_cast<const std::byte*>(value);
    socket.options[{level, name}].assign(bytes, bytes + size);
    return 0;
}

int simulated_kernel::get_option(simulated_object& socket, int level, int name, void* value,
                                 socklen_t* size) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (level == SOL_UDP) return -ENOPROTOOPT;  // neither GSO nor GRO here
    const auto answer = [&](int number) {
        *size = std::min<socklen_t>(*size, sizeof number);
        std::memcpy(value, &number, *size);
        return 0;
    };
    if (level == SOL_SOCKET && name == SO_ERROR) return answer(std::exchange(socket.error, 0));
    if (level == SOL_SOCKET && name == SO_TYPE)
        return answer(socket.datagrams ? SOCK_DGRAM : SOCK_STREAM);
    if (level == SOL_SOCKET && name == SO_DOMAIN) return answer(socket.domain);
    const auto found = socket.options.find({level, name});
    if (found == socket.options.end()) return answer(0);
    *size = std::min(*size, static_cast<socklen_t>(found->second.size()));
    std::memcpy(value, found->second.data(), *size);
    return 0;
}

int simulated_kernel::local_address(simulated_object& socket, sockaddr* address, socklen_t* size) {
    if (!is_socket(socket)) return -ENOTSOCK;
    socket_address local = socket.local;
    if (local.size == 0) {
        local.bytes.ss_family = static_cast<sa_family_t>(socket.domain);
        local.size = socket.domain == AF_INET    ? sizeof(sockaddr_in)
                     : socket.domain == AF_INET6 ? sizeof(sockaddr_in6)
                                                 : sizeof(sa_family_t);
    }
    copy_out(local, address, size);
    return 0;
}

int simulated_kernel::peer_address(simulated_object& socket, sockaddr* address, socklen_t* size) {
    if (!is_socket(socket)) return -ENOTSOCK;
    if (socket.state != socket_state::connected || socket.dead) return -ENOTCONN;
    copy_out(socket.peer, address, size);
    return 0;
}

int simulated_kernel::socket_pair(int (&fds)[2]) {
    const auto a = std::make_shared<simulated_object>(object_kind::socket);
    const auto b = std::make_shared<simulated_object>(object_kind::socket);
    a->domain = b->domain = AF_UNIX;
    a->state = b->state = socket_state::connected;
    a->out = b->in = std::make_shared<byte_channel>(limits_.socket_buffer);
    a->in = b->out = std::make_shared<byte_channel>(limits_.socket_buffer);
    a->other = b;
    b->other = a;
    a->peer.size = b->peer.size = sizeof(sa_family_t);
    a->peer.bytes.ss_family = b->peer.bytes.ss_family = AF_UNIX;
    fds[0] = install(a);
    fds[1] = fds[0] < 0 ? fds[0] : install(b);
    if (fds[1] < 0 && fds[0] >= 0) close(fds[0]);
    return fds[1] < 0 ? fds[1] : 0;
}

}  // namespace ringloop::testing
