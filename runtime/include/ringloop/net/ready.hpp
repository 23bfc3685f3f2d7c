// ready: waits until a descriptor of any kind is readable, writable … (one-shot poll).
//
// Returns the events (POLLIN, POLLOUT, POLLERR, POLLHUP …). The caller owns the descriptor and
// closes it only after the await has ended. Thread: a scheduler's. Cancel loses nothing.
#pragma once

#include <poll.h>

#include <cstdint>

#include "ringloop/detail/operation_await.hpp"

namespace ringloop::net {

namespace detail {
class ready_await : public ringloop::detail::operation_await {
  public:
    ready_await(int fd, std::uint32_t events) noexcept { op_.prepare_poll(fd, events); }
    std::uint32_t await_resume() const { return static_cast<std::uint32_t>(finish("poll")); }
};
}  // namespace detail

[[nodiscard]] inline detail::ready_await ready(int fd, std::uint32_t events) {
    return {fd, events};
}

}  // namespace ringloop::net
