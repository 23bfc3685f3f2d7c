// Gathered sending: one direct attempt, then operations for what is left. See the header.
#include "net/write_pieces.hpp"

#include <cerrno>
#include <stdexcept>

#include "ringloop/detail/piece_list.hpp"
#include "ringloop/error.hpp"
#include "ringloop/stop.hpp"

namespace ringloop::net::detail {
namespace {

class send_await : public ringloop::detail::operation_await {
  public:
    send_await(int socket, std::span<iovec> pieces) noexcept {
        message_.msg_iov = pieces.data();
        message_.msg_iovlen = pieces.size();
        op_.prepare_send(socket, &message_);
    }
    // Negative: try again.
    int await_resume() const { return finish_or(EAGAIN, "write_all"); }

  private:
    msghdr message_{};
};

}  // namespace

writing_turn::writing_turn(stream_state& stream) : stream_(stream) {
    if (stream.writing_)
        throw std::logic_error(
            "ringloop: another write to this stream is under way; one at a time");
    stream.writing_ = true;
}

task<void> send_pieces(stream_state& stream, std::span<const std::span<const std::byte>> pieces) {
    bool direct = true;
    while (!pieces.empty()) {
        ringloop::detail::piece_list left(pieces);
        pieces = pieces.subspan(left.pieces().size());
        left.consume(0);
        while (!left.pieces().empty()) {
            ssize_t sent = 0;
            if (direct) {
                direct = false;
                sent = stream.io().try_send(stream.socket(), left.pieces());
                if (sent < 0 && sent != -EAGAIN && sent != -EINTR)
                    ringloop::detail::throw_error(static_cast<int>(-sent), "write_all");
            } else {
                sent = co_await send_await(stream.socket(), left.pieces());
                if (sent == 0) ringloop::detail::throw_error(EPIPE, "write_all");
            }
            if (sent > 0) left.consume(static_cast<std::size_t>(sent));
        }
    }
}

task<void> write_pieces(stream_state& stream, std::span<const std::span<const std::byte>> pieces) {
    const stop_scope* scope = co_await current_scope();
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    const writing_turn mine(stream);
    co_await send_pieces(stream, pieces);
}

}  // namespace ringloop::net::detail
