// The poll events that operations ask for, by the values of Linux's ABI: <poll.h> belongs to the
// drivers.
#pragma once

#include <cstdint>

namespace ringloop::python {

inline constexpr std::uint32_t poll_in = 0x001;
inline constexpr std::uint32_t poll_out = 0x004;

}  // namespace ringloop::python
