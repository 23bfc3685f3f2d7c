// connect_await: connects a non-blocking socket; the awaiter keeps a copy of the address. Thread:
// the scheduler's.
#pragma once

#include "ringloop/detail/operation_await.hpp"

namespace ringloop::net::detail {

template <class Address>
class connect_await : public ringloop::detail::operation_await {
  public:
    connect_await(int socket, const Address& to) noexcept : to_(to) {
        op_.prepare_connect(socket, to_.address(), to_.size());
    }
    void await_resume() const { static_cast<void>(finish("connect")); }

  private:
    const Address to_;
};

}  // namespace ringloop::net::detail
