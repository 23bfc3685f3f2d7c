// A listener's armed accept and who waits for it. See net/detail/listener_state.hpp.
#include "ringloop/net/detail/listener_state.hpp"

#include <cassert>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <utility>

#include "ringloop/error.hpp"

namespace ringloop::net::detail {

using ringloop::detail::owned_operation;

listener_state::listener_state(scheduler& home, int socket)
    : resident(home, [](resident& self) noexcept { static_cast<listener_state&>(self).leave(); }),
      home_(home),
      socket_(socket),
      accept_(
          [](operation& op, const completion& got) noexcept {
              static_cast<listener_state*>(static_cast<owned_operation&>(op).owner)->arrived(got);
          },
          this),
      retry_([](timer& t) noexcept { static_cast<retry_timer&>(t).owner.arm(); }, *this) {
    sockets_.reserve(waiting_max);
}

listener_state::~listener_state() {
    leave();
}

void listener_state::leave() noexcept {
    if (socket_ < 0) return;
    part();
    assert(acceptor_ == nullptr && "a listener was closed under its accept()");
    taken_back_ = true;
    if (accept_.in_flight()) io().retire(accept_);
    home_.timers().cancel(retry_);  // last: the accept's end may have set it
    for (; head_ != sockets_.size(); ++head_) io().close(sockets_[head_]);
    io().close(std::exchange(socket_, -1));
}

void listener_state::arm() noexcept {
    if (accept_.in_flight() || retry_.armed()) return;
    taken_back_ = false;
    accept_.prepare_accept(socket_, true);
    io().submit(accept_);
}

void listener_state::refused(int error_number) noexcept {
    switch (error_number) {
        case ECANCELED:
            if (!taken_back_) error_ = error_number;
            break;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM: {
            const std::int64_t now_ns = home_.now_ns();
            if (!retry_.armed()) home_.timers().insert(retry_, now_ns + retry_ns, now_ns);
            return;
        }
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
        case EOPNOTSUPP:
            error_ = error_number;
            break;
        default:  // of one connection: gone already, refused by the firewall, no route any more
            break;
    }
    if (error_ == 0 && acceptor_ != nullptr) arm();
}

void listener_state::arrived(const completion& got) noexcept {
    if (got.result < 0) {
        refused(-got.result);
    } else {
        try {
            sockets_.push_back(got.result);
        } catch (const std::bad_alloc&) {
            io().close(got.result);
        }
        if (got.more && !taken_back_ && sockets_.size() - head_ >= waiting_max) {
            taken_back_ = true;
            io().cancel(accept_);
        }
    }
    if (acceptor_ != nullptr && ready()) acceptor_->wake();
}

int listener_state::take() noexcept {
    const int socket = sockets_[head_++];
    if (head_ == sockets_.size()) {
        sockets_.clear();
        head_ = 0;
    }
    return socket;
}

bool socket_await::start(std::coroutine_handle<> handle, stop_scope* scope) {
    if (wait_.refuses(scope) || listener_.ready()) return false;
    if (listener_.acceptor_ != nullptr)
        throw std::logic_error("ringloop: another accept() of this listener is under way");
    listener_.arm();
    wait_.wait(listener_.home_, listener_.acceptor_, handle, scope);
    return true;
}

int socket_await::take() {
    if (wait_.stopped()) throw operation_cancelled();
    if (listener_.head_ == listener_.sockets_.size())
        ringloop::detail::checked(-std::exchange(listener_.error_, 0), "accept");
    return listener_.take();
}

}  // namespace ringloop::net::detail
