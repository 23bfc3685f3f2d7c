// Sending on a stream: one direct attempt, then an operation for what is left.
// See net/detail/stream_state.hpp.
#include <cassert>
#include <cerrno>
#include <stdexcept>

#include "ringloop/error.hpp"
#include "ringloop/net/detail/stream_state.hpp"

namespace ringloop::net::detail {

write_await::write_await(stream_state& stream, std::span<const std::byte> bytes, bool all,
                         std::error_code* failure) noexcept
    : stop_waiter(&write_await::ask_to_stop),
      stream_(stream),
      failure_(failure),
      rest_(bytes),
      all_(all),
      op_(&write_await::arrive, this) {}

bool write_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    scope_ = scope;
    if (scope != nullptr && scope->stop_requested()) {
        error_ = ECANCELED;
        return false;
    }
    if (stream_.writing_)
        throw std::logic_error(
            "ringloop: another write to this stream is under way; one at a time");
    if (rest_.empty()) return false;
    piece_ = {const_cast<std::byte*>(rest_.data()), rest_.size()};  // NOLINT: iovec is not const
    const ssize_t sent = stream_.io().try_send(stream_.socket_, std::span(&piece_, 1));
    if (sent > 0) {
        note_sent(static_cast<std::size_t>(sent));
        if (rest_.empty() || !all_) [[likely]]
            return false;
    } else if (sent != -EAGAIN && sent != -EINTR) {
        error_ = static_cast<int>(-sent);
        return false;
    }
    stream_.writing_ = true;
    waiting_ = handle;
    if (scope != nullptr) scope->add(*this);
    stream_.home_.note_wait(scope);
    submit_rest();
    return true;
}

void write_await::note_sent(std::size_t count) noexcept {
    sent_ += count;
    rest_ = rest_.subspan(count);
}

void write_await::submit_rest() noexcept {
    piece_ = {const_cast<std::byte*>(rest_.data()), rest_.size()};  // NOLINT: iovec is not const
    message_.msg_iov = &piece_;
    message_.msg_iovlen = 1;
    op_.prepare_send(stream_.socket_, &message_);
    stream_.io().submit(op_);
}

void write_await::arrive(operation& op, const completion& last) noexcept {
    auto& self = *static_cast<write_await*>(static_cast<owned_operation&>(op).owner);
    const bool stopping = self.scope_ != nullptr && self.scope_->stop_requested();
    if (last.result > 0) {
        self.note_sent(static_cast<std::size_t>(last.result));
        if (!self.rest_.empty() && self.all_) {
            if (!stopping) {
                self.submit_rest();
                return;
            }
            self.error_ = ECANCELED;
        }
    } else if ((last.result == -EINTR || last.result == -EAGAIN) && !stopping) {
        self.submit_rest();
        return;
    } else {
        self.error_ = last.result == 0 ? EPIPE : -last.result;
    }
    self.unlink();
    self.stream_.writing_ = false;
    self.stream_.home_.schedule(self.waiting_);
}

void write_await::ask_to_stop(stop_waiter& waiter) noexcept {
    auto& self = static_cast<write_await&>(waiter);
    self.stream_.io().cancel(self.op_);
}

void write_await::fail() const {
    const bool ended_early = error_ == ECANCELED || error_ == EINTR;
    if (ended_early && scope_ != nullptr && scope_->stop_requested()) throw operation_cancelled();
    ringloop::detail::checked(-error_, all_ ? "write_all" : "write_some", failure_);
}

}  // namespace ringloop::net::detail
