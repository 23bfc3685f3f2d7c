// Sending what was encrypted: direct attempts, then an operation for what is left.
// See net/tls_output.hpp.
#include "net/tls_output.hpp"

#include <cerrno>

#include "ringloop/error.hpp"

namespace ringloop::net::detail {

tls_output::tls_output(stream_state& socket) noexcept
    : socket_(socket), send_(&tls_output::arrive, this) {}

tls_output::~tls_output() {
    closing_ = true;
    if (send_.in_flight()) socket_.io().retire(send_);
}

void tls_output::add(std::span<const std::byte> bytes) {
    if (error_ != 0) return;
    queued_.insert(queued_.end(), bytes.begin(), bytes.end());
    drained_.reset();
}

void tls_output::push() noexcept {
    while (!send_.in_flight() && waiting() != 0) {
        if (sent_ == flying_.size()) {
            flying_.clear();
            flying_.swap(queued_);
            sent_ = 0;
        }
        piece_ = {flying_.data() + sent_, flying_.size() - sent_};
        const ssize_t count = socket_.io().try_send(socket_.socket(), std::span(&piece_, 1));
        if (count > 0) {
            sent_ += static_cast<std::size_t>(count);
        } else if (count == -EAGAIN || count == -EINTR) {
            submit();
        } else {
            fail(count == 0 ? EPIPE : static_cast<int>(-count));
        }
    }
    if (waiting() == 0) settle();
}

void tls_output::submit() noexcept {
    message_.msg_iov = &piece_;
    message_.msg_iovlen = 1;
    send_.prepare_send(socket_.socket(), &message_);
    socket_.io().submit(send_);
}

void tls_output::arrive(operation& op, const completion& last) noexcept {
    auto& self = *static_cast<tls_output*>(static_cast<owned_operation&>(op).owner);
    if (self.closing_) return;
    if (last.result > 0) {
        self.sent_ += static_cast<std::size_t>(last.result);
    } else if (last.result != -EAGAIN && last.result != -EINTR) {
        self.fail(last.result == 0 ? EPIPE : -last.result);
    }
    self.push();
}

void tls_output::fail(int error_number) noexcept {
    error_ = error_number;
    queued_.clear();
    flying_.clear();
    sent_ = 0;
    // A connection that is lost ends the peer's bytes by itself. After anything else a reader would
    // wait for answers to what was never sent.
    if (error_number == EPIPE || error_number == ECONNRESET) return;
    ended_connection_ = true;
    socket_.io().shutdown(socket_.socket(), SHUT_RDWR);
}

void tls_output::settle() noexcept {
    if (flying_.capacity() > kept_max) flying_ = {};
    if (queued_.capacity() > kept_max) queued_ = {};
    flying_.clear();
    sent_ = 0;
    drained_.set();
}

void tls_output::check() const {
    if (error_ != 0) ringloop::detail::throw_error(error_, "TLS: send");
}

}  // namespace ringloop::net::detail
