// for_blocks: the one way in which compute functions walk their blocks: stop flag before each,
// compute time counted, spread over the arena's workers if there is more than one block.
#pragma once

#include <atomic>
#include <cstddef>

#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/execution.hpp"

namespace ringloop::kernels {

// body(index) -> bool, false to leave early. True if every block ran.
template <class Body>
[[nodiscard]] bool for_blocks(const execution& how, std::size_t count, Body&& body) {
    if (how.workers == nullptr || count < 2) {
        const compute_scope counted;
        for (std::size_t index = 0; index < count; ++index)
            if (how.stop_requested() || !body(index)) return false;
        return true;
    }
    struct walk {
        const execution& how;
        Body& body;
        std::atomic<bool> left_early{false};
    } state{how, body};
    how.workers->for_each_block(
        count,
        [](void* context, std::size_t index) {
            auto& self = *static_cast<walk*>(context);
            if (self.left_early.load(std::memory_order_relaxed)) return;
            const compute_scope counted;
            if (self.how.stop_requested() || !self.body(index))
                self.left_early.store(true, std::memory_order_relaxed);
        },
        &state);
    return !state.left_early.load(std::memory_order_relaxed);
}

}  // namespace ringloop::kernels
