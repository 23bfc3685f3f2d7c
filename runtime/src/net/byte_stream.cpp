// byte_stream: what needs no waiting. Reads and writes are in stream_state.cpp and
// stream_write.cpp.
#include "ringloop/net/byte_stream.hpp"

#include <cerrno>
#include <stdexcept>

#include "net/write_pieces.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/detail/make_state.hpp"

namespace ringloop::net {

byte_stream::byte_stream(scheduler& home, int socket)
    : state_(detail::make_state<detail::stream_state>(home, socket)) {}

detail::stream_state& byte_stream::state() const {
    if (state_ == nullptr || state_->socket() < 0)
        throw std::logic_error(
            "ringloop: the stream is closed, was moved from, or its scheduler has ended");
    if (scheduler* const here = scheduler::current(); here != nullptr && here != &state_->home())
        throw std::logic_error("ringloop: the stream belongs to another scheduler");
    return *state_;
}

task<void> byte_stream::write_all(std::span<const std::span<const std::byte>> pieces) {
    return detail::write_pieces(state(), pieces);
}

task<void> byte_stream::write_all(std::span<const std::span<const std::byte>> pieces,
                                  std::error_code& failure) {
    failure.clear();
    try {
        co_await write_all(pieces);
    } catch (const error& e) {
        failure = e.code();
    }
}

void byte_stream::shutdown(direction which) {
    const int result = state().io().shutdown(state_->socket(), static_cast<int>(which));
    if (result != -ENOTCONN) ringloop::detail::checked(result, "shutdown");  // the peer was faster
}

int byte_stream::release() {
    const int socket = state().release();
    state_.reset();
    return socket;
}

}  // namespace ringloop::net
