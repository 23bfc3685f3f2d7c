// try_until: a system call that does not block, tried until it moves something, with waits for its
// descriptor in between.
//
// Cancel: an await that begins after a stop request throws operation_cancelled before it tries;
// later a stop ends a wait, and never what has been moved.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "ringloop/error.hpp"
#include "ringloop/net/ready.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net::detail {

// Returns what `attempt` returned once that was positive; throws its negated errno as the error of
// `what`.
template <class Attempt>
task<std::size_t> try_until(int socket, std::uint32_t events, const char* what, Attempt attempt) {
    const stop_scope* scope = co_await current_scope();
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    while (true) {
        const int moved = attempt();
        if (moved > 0) co_return static_cast<std::size_t>(moved);
        if (moved != -EAGAIN && moved != -EINTR) ringloop::detail::throw_error(-moved, what);
        co_await ready(socket, events);
    }
}

}  // namespace ringloop::net::detail
