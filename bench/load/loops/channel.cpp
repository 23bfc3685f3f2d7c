// Sockets and TLS of the load client. Nothing here waits but the connecting itself.
#include "channel.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <system_error>

#ifdef RINGLOOP_LOAD_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

namespace load {
namespace {

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

int dial_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long: " + path);
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) fail("socket");
    if (connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
    return made;
}

void take_source(int descriptor) {
    static std::uint32_t number = 0;
    const int on = 1;
    setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    sockaddr_in source{};
    source.sin_family = AF_INET;
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + number++ % 250);
    if (bind(descriptor, reinterpret_cast<sockaddr*>(&source), sizeof source) != 0) fail("bind");
}

int dial_ip(const std::string& port, bool datagrams) {
    const int made = socket(AF_INET, (datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (made < 0) fail("socket");
    if (!datagrams) take_source(made);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(made, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
    const int on = 1;
    if (!datagrams) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
}

}  // namespace

#ifdef RINGLOOP_LOAD_TLS
struct tls_client::state {
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
};
tls_client::tls_client() : state_(std::make_unique<state>()) {
    SSL_CTX_set_mode(state_->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
tls_client::~tls_client() {
    SSL_CTX_free(state_->context);
}
#else
struct tls_client::state {};
tls_client::tls_client() {
    throw std::runtime_error("built without TLS: apt-get install libssl-dev, and build again");
}
tls_client::~tls_client() = default;
#endif

channel::channel(const std::string& kind, const std::string& address, tls_client* tls)
    : descriptor_(kind == "unix" ? dial_unix(address) : dial_ip(address, kind == "udp")) {
    fcntl(descriptor_, F_SETFL, O_NONBLOCK);
#ifdef RINGLOOP_LOAD_TLS
    if (tls != nullptr) {
        SSL* const session = SSL_new(tls->state_->context);
        SSL_set_fd(session, descriptor_);
        SSL_set_connect_state(session);
        session_ = session;
    }
#else
    static_cast<void>(tls);
#endif
}

channel::~channel() {
#ifdef RINGLOOP_LOAD_TLS
    if (SSL* const session = static_cast<SSL*>(session_); session != nullptr) {
        if (SSL_is_init_finished(session)) SSL_shutdown(session);  // says so, and waits for nothing
        SSL_free(session);
    }
#endif
    close(descriptor_);
}

bool channel::handshake() {
#ifdef RINGLOOP_LOAD_TLS
    if (session_ != nullptr) {
        ERR_clear_error();
        return tls_result(SSL_do_handshake(static_cast<SSL*>(session_)), "handshake") > 0;
    }
#endif
    return true;
}

long channel::read(char* into, std::size_t size) {
#ifdef RINGLOOP_LOAD_TLS
    if (session_ != nullptr) {
        ERR_clear_error();
        return tls_result(SSL_read(static_cast<SSL*>(session_), into, static_cast<int>(size)),
                          "receive");
    }
#endif
    const ssize_t count = recv(descriptor_, into, size, 0);
    if (count < 0 && errno == EAGAIN) return would_block;
    if (count < 0) fail("receive");
    return count;
}

long channel::write(const char* from, std::size_t size) {
#ifdef RINGLOOP_LOAD_TLS
    if (session_ != nullptr) {
        ERR_clear_error();
        return tls_result(SSL_write(static_cast<SSL*>(session_), from, static_cast<int>(size)),
                          "send");
    }
#endif
    const ssize_t count = send(descriptor_, from, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return would_block;
    if (count < 0) fail("send");
    return count;
}

long channel::tls_result(int result, const char* what) {
#ifdef RINGLOOP_LOAD_TLS
    if (result > 0) return result;
    const int why = SSL_get_error(static_cast<SSL*>(session_), result);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return would_block;
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    if (why == SSL_ERROR_SYSCALL && errno != 0) fail(what);
    const char* const reason = ERR_reason_error_string(ERR_get_error());
    throw std::runtime_error(std::string("TLS, ") + what + ": " +
                             (reason != nullptr ? reason : "the connection broke"));
#else
    static_cast<void>(what);
    return result;
#endif
}

}  // namespace load
