// Receiving on a stream: the armed receive, its chunks, and who waits for them.
// See net/detail/stream_state.hpp.
#include "ringloop/net/detail/stream_state.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <utility>

#include "ringloop/error.hpp"

namespace ringloop::net::detail {

stream_state::stream_state(scheduler& home, int socket) noexcept
    : resident(home, [](resident& self) noexcept { static_cast<stream_state&>(self).leave(); }),
      home_(home),
      socket_(socket),
      receive_(
          [](operation& op, const completion& got) noexcept {
              static_cast<stream_state*>(static_cast<owned_operation&>(op).owner)->arrived(got);
          },
          this) {}

stream_state::~stream_state() {
    leave();
}

void stream_state::leave() noexcept {
    assert(reader_ == nullptr && !writing_ && "a stream was closed under its reader or writer");
    part();
    taken_back_ = true;
    if (receive_.in_flight()) io().retire(receive_);
    while (!chunks_.empty()) chunks_.pop().release();
    if (socket_ >= 0) io().close(std::exchange(socket_, -1));
}

int stream_state::release() {
    if (reading_ || writing_)
        throw std::logic_error("ringloop: a read or a write is under way: the stream cannot go");
    taken_back_ = true;
    if (receive_.in_flight()) io().retire(receive_);
    if (readable())
        throw std::logic_error("ringloop: receive() has read ahead: the stream cannot go");
    io().give_up(socket_);
    return std::exchange(socket_, -1);
}

void stream_state::arm() noexcept {
    if (receive_.in_flight() || ended_) return;
    taken_back_ = false;
    receive_.prepare_receive(socket_, true);
    io().submit(receive_);
}

void stream_state::arrived(const completion& got) noexcept {
    if (got.result > 0) {
        const std::span<const std::byte> bytes(io().buffer(got.buffer),
                                               static_cast<std::size_t>(got.result));
        keep(buffer_lease(home_, got.buffer, bytes));
        if (got.more && !taken_back_ && chunks_.size() >= chunks_max) {
            taken_back_ = true;
            io().cancel(receive_);
        }
    } else if (got.result == 0) {
        ended_ = true;
    } else if (!(taken_back_ && got.result == -ECANCELED)) {
        ended_ = true;
        receive_error_ = -got.result;
    } else if (reader_ != nullptr && chunks_.empty()) {
        arm();  // a reader came before the cancel was through
        return;
    }
    if (reader_ != nullptr && readable()) reader_->wake();
}

// A copy spares the pool; without memory for one, the buffer itself has to do.
static buffer_lease copied(buffer_lease&& chunk) noexcept {
    try {
        return buffer_lease(chunk.bytes());
    } catch (const std::bad_alloc&) {
        return std::move(chunk);
    }
}

void stream_state::keep(buffer_lease&& lease) noexcept {
    if (ended_) return;  // by a chunk that got lost
    try {
        if (reader_ == nullptr && pool_is_low(io().leased_buffers())) {
            chunks_.push(copied(std::move(lease)));
        } else {
            chunks_.push(std::move(lease));
        }
    } catch (const std::bad_alloc&) {
        ended_ = true;
        receive_error_ = ENOMEM;
        taken_back_ = true;
        io().cancel(receive_);
    }
}

buffer_lease stream_state::take(std::error_code* failure) {
    if (chunks_.empty()) {
        assert(ended_);
        ringloop::detail::checked(-receive_error_, "receive", failure);
        return {};
    }
    buffer_lease chunk = chunks_.pop();
    if (pool_is_low(home_.leases_handed_out())) chunk = copied(std::move(chunk));
    chunk.hand_out();  // where it is no copy
    return chunk;
}

void stream_state::enter_read() {
    if (reading_)
        throw std::logic_error("ringloop: another read of this stream is under way; one at a time");
    reading_ = true;
}

// ---- receive()

bool receive_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    if (wait_.refuses(scope) || stream_.readable()) return false;
    stream_.chunks_.reserve(stream_state::chunks_max);
    stream_.enter_read();
    began_ = true;
    stream_.arm();
    wait_.wait(stream_.home_, stream_.reader_, handle, scope);
    return true;
}

buffer_lease receive_await::await_resume() {
    if (began_) stream_.leave_read();
    if (wait_.stopped() && !(began_ && stream_.readable())) throw operation_cancelled();
    if (failure_ != nullptr) failure_->clear();
    return stream_.take(failure_);
}

// ---- read_some()

read_await::read_await(stream_state& stream, std::span<std::byte> into,
                       std::error_code* failure) noexcept
    : stop_waiter(&read_await::ask_to_stop),
      stream_(stream),
      into_(into),
      failure_(failure),
      op_(&read_await::arrive, this) {}

bool read_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    scope_ = scope;
    if (wait_.refuses(scope) || stream_.readable()) return false;
    stream_.enter_read();
    began_ = true;
    if (stream_.receive_.in_flight()) {
        wait_.wait(stream_.home_, stream_.reader_, handle, scope);
        return true;
    }
    direct_ = true;
    waiting_ = handle;
    op_.prepare_receive_into(stream_.socket_, into_.data(), into_.size());
    if (scope != nullptr) scope->add(*this);
    stream_.home_.note_wait(scope);
    stream_.io().submit(op_);
    return true;
}

void read_await::arrive(operation& op, const completion& last) noexcept {
    auto& self = *static_cast<read_await*>(static_cast<owned_operation&>(op).owner);
    self.unlink();
    self.result_ = last.result;
    self.stream_.home_.schedule(self.waiting_);
}

void read_await::ask_to_stop(stop_waiter& waiter) noexcept {
    auto& self = static_cast<read_await&>(waiter);
    self.stream_.io().cancel(self.op_);
}

std::size_t read_await::await_resume() {
    if (failure_ != nullptr) failure_->clear();
    if (into_.empty()) return 0;
    if (began_) stream_.leave_read();
    if (direct_) {
        if (result_ == -ECANCELED && scope_ != nullptr && scope_->stop_requested())
            throw operation_cancelled();
        return static_cast<std::size_t>(ringloop::detail::checked(result_, "read_some", failure_));
    }
    if (wait_.stopped() && !(began_ && stream_.readable())) throw operation_cancelled();
    if (stream_.chunks_.empty()) return stream_.take(failure_).size();
    buffer_lease& chunk = stream_.chunks_.front();
    const std::size_t count = std::min(into_.size(), chunk.size());
    std::copy_n(chunk.bytes().begin(), count, into_.begin());
    chunk.consume(count);
    if (chunk.size() == 0) stream_.chunks_.pop().release();
    return count;
}

}  // namespace ringloop::net::detail
