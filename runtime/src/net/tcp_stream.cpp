// tcp_stream: making, closing and asking about a connection. Reads and writes are in
// stream_state.cpp and stream_write.cpp.
#include "ringloop/net/tcp_stream.hpp"

#include <netinet/tcp.h>

#include <cerrno>
#include <stdexcept>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"

namespace ringloop::net {
namespace {

class connect_await : public ringloop::detail::operation_await {
  public:
    connect_await(int socket, const endpoint& to) noexcept {
        op_.prepare_connect(socket, to.address(), to.size());
    }
    void await_resume() const { static_cast<void>(finish("connect")); }
};

}  // namespace

task<tcp_stream> tcp_stream::connect(endpoint to) {
    scheduler& home = ringloop::detail::running_scheduler();
    const int socket = ringloop::detail::checked(home.io().make_socket(to.family(), SOCK_STREAM, 0),
                                                 "make a socket to connect");
    tcp_stream stream(home, socket);
    co_await connect_await(socket, to);
    co_return stream;
}

tcp_stream::tcp_stream(scheduler& home, int socket)
    : state_(std::make_unique<detail::stream_state>(home, socket)) {}

detail::stream_state& tcp_stream::state() const {
    if (state_ == nullptr)
        throw std::logic_error("ringloop: the stream is closed, or was moved from");
    return *state_;
}

void tcp_stream::shutdown(direction which) {
    const int result = state().io().shutdown(state_->socket(), static_cast<int>(which));
    if (result != -ENOTCONN) ringloop::detail::checked(result, "shutdown");  // the peer was faster
}

void tcp_stream::set_no_delay(bool on) {
    const int value = on ? 1 : 0;
    ringloop::detail::checked(
        state().io().set_option(state_->socket(), IPPROTO_TCP, TCP_NODELAY, &value, sizeof value),
        "set TCP_NODELAY");
}

endpoint tcp_stream::local() const {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    ringloop::detail::checked(state().io().local_address(state_->socket(), address, &size),
                              "local address");
    return {address, size};
}

endpoint tcp_stream::peer() const {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    ringloop::detail::checked(state().io().peer_address(state_->socket(), address, &size),
                              "peer address");
    return {address, size};
}

}  // namespace ringloop::net
