// park_word: what the epoll body keeps in operation::driver_word: where the operation is, whether
// its connect has been started, and the next operation parked with the same descriptor.
#pragma once

#include <bit>
#include <cstdint>

#include "ringloop/operation.hpp"

namespace ringloop::epoll {

enum class place : std::uint64_t { pending = 0, parked = 1, files = 2 };

inline constexpr std::uint64_t place_mask = 3;
inline constexpr std::uint64_t connecting_bit = 4;
inline constexpr std::uint64_t low_bits = 7;
static_assert(alignof(operation) >= 8, "the low bits of its address are used");

inline place place_of(const operation& op) noexcept {
    return static_cast<place>(op.driver_word & place_mask);
}
inline void set_place(operation& op, place where) noexcept {
    op.driver_word = (op.driver_word & ~place_mask) | static_cast<std::uint64_t>(where);
}
inline operation* next_parked(const operation& op) noexcept {
    return std::bit_cast<operation*>(op.driver_word & ~low_bits);
}
inline void set_next_parked(operation& op, operation* next) noexcept {
    op.driver_word = (op.driver_word & low_bits) | std::bit_cast<std::uint64_t>(next);
}

}  // namespace ringloop::epoll
