// transfer: how one coroutine hands the thread to another, on every compiler and at every
// optimisation level.
//
// Returning a handle from await_suspend() is a tail call with clang and with g++ -O2 only. Without
// it each transfer leaves two frames on the stack, and a loop over a million awaits that finish at
// once overflows it. So every `transfers_nested_max`-th transfer is not made but noted down, the
// stack unwinds to the innermost resume(), and that goes on with the noted handle.
//
// Rules
//  1. Whoever starts or continues a coroutine from a plain function calls detail::resume(), or
//     scheduler::schedule(). A bare handle.resume() works too: transfer() then makes a resume() of
//     its own.
//  2. `noted` is null whenever no resume() is on the stack.
#pragma once

#include <coroutine>
#include <cstdint>

#include "ringloop/detail/hot_thread_local.hpp"

namespace ringloop::detail {

inline constexpr std::uint32_t transfers_nested_max = 64;  // power of two

struct transfer_state {
    void* noted = nullptr;        // address of the handle to go on with
    std::uint32_t transfers = 0;  // counts up and wraps
    std::uint32_t depth = 0;      // calls of resume() on this thread's stack
};
// One for all modules of a process, which is why it is not inline.
RINGLOOP_HOT_TLS extern thread_local constinit transfer_state transfers;

inline void resume(std::coroutine_handle<> handle) {
    transfer_state& state = transfers;
    ++state.depth;
    handle.resume();
    while (void* noted = state.noted) {
        state.noted = nullptr;
        std::coroutine_handle<>::from_address(noted).resume();
    }
    --state.depth;
}

// What await_suspend() returns in order to continue `next`.
[[nodiscard]] inline std::coroutine_handle<> transfer(std::coroutine_handle<> next) {
    transfer_state& state = transfers;
    if ((++state.transfers & (transfers_nested_max - 1)) != 0) [[likely]]
        return next;
    if (state.depth == 0) {
        resume(next);
    } else {
        state.noted = next.address();
    }
    return std::noop_coroutine();
}

}  // namespace ringloop::detail
