// oneTBB: offload() to an arena of its threads. Needs oneTBB 2021 or newer; libringloop itself does
// not know it.
//
//     tbb::task_arena arena;
//     auto sum = co_await rl::offload(arena, [&](std::stop_token stop) {
//         return tbb::parallel_reduce(range, 0.0, add_part, std::plus<>());
//     });
//
// The function runs on one of the arena's threads and may use all of them: an algorithm of oneTBB's
// that it calls stays in the arena. Contract, cancels and exceptions: ringloop/offload.hpp. An
// algorithm that shall end early at a stop asks the token in its body, or has a
// tbb::task_group_context that a std::stop_callback cancels.
// Lifetime: the arena outlives the await. Thread: a scheduler's; one arena may serve many.
#pragma once

#include <tbb/task_arena.h>

#include <type_traits>
#include <utility>

#include "ringloop/offload.hpp"

namespace ringloop {

namespace detail {
template <>
struct pool_door<tbb::task_arena> {
    static void submit(tbb::task_arena& arena, thread_pool::item& work) {
        arena.enqueue([&work] { work.run(work); });
    }
};
}  // namespace detail

template <class Fn>
[[nodiscard]] detail::offload_await<std::decay_t<Fn>, tbb::task_arena> offload(
    tbb::task_arena& arena, Fn&& fn) {
    return {arena, std::forward<Fn>(fn)};
}

}  // namespace ringloop
