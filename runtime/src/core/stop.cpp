// Stop scopes, and the bridge from std::stop_token, which may be stopped on any thread.
#include "ringloop/stop.hpp"

#include "ringloop/detail/remote_stop.hpp"

namespace ringloop {

stop_scope::link::link(stop_scope& owner) noexcept
    : stop_waiter(
          [](stop_waiter& self) noexcept { static_cast<link&>(self).inner->request_stop(); }),
      inner(&owner) {}

stop_scope::stop_scope(stop_scope* outer) noexcept : outer_(*this) {
    if (outer == nullptr) return;
    owner_ = outer->owner();
    requested_ = outer->stop_requested();
    if (!requested_) outer->add(outer_);
}

stop_scope::~stop_scope() {
    while (first_ != nullptr) first_->unlink();
}

void stop_scope::request_stop() noexcept {
    if (requested_) return;
    requested_ = true;
    if (source_.stop_possible()) source_.request_stop();
    while (stop_waiter* waiter = first_) {
        waiter->unlink();
        waiter->on_stop(*waiter);
    }
}

std::stop_token stop_scope::token() {
    if (!source_.stop_possible()) {
        source_ = std::stop_source();
        if (requested_) source_.request_stop();
    }
    return source_.get_token();
}

namespace detail {

remote_stop::remote_stop(const std::stop_token& token, stop_scope& scope, scheduler& home)
    : node_(new node(scope, home)), callback_(std::in_place, token, caller{node_}) {}

remote_stop::~remote_stop() {
    callback_.reset();  // waits while it runs on another thread
    if (node_->sent) {
        node_->scope = nullptr;  // run() frees the node
    } else {
        delete node_;
    }
}

void remote_stop::node::arrive(posted& self) noexcept {
    node& arrived = static_cast<node&>(self);
    if (arrived.scope == nullptr) {
        delete &arrived;
        return;
    }
    arrived.sent = false;
    arrived.scope->request_stop();
}

void remote_stop::caller::operator()() const noexcept {
    if (scheduler::current() == &target->home) {
        target->scope->request_stop();
    } else {
        target->sent = true;
        target->home.post(*target);
    }
}

}  // namespace detail
}  // namespace ringloop
