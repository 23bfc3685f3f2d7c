// make_state: the state of a socket that is taken over, and the socket's end where there is no
// memory for it. Thread: the scheduler's.
#pragma once

#include "ringloop/scheduler.hpp"

namespace ringloop::net::detail {

template <class State>
[[nodiscard]] State* make_state(scheduler& home, int socket) {
    try {
        return new State(home, socket);
    } catch (...) {
        home.io().close(socket);
        throw;
    }
}

}  // namespace ringloop::net::detail
