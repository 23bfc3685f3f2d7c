// ring: one set-up io_uring with its provided-buffer ring, proved to work here and now.
//
// open_ring() probes under the live seccomp filter and limits: the opcodes that are used, the
// features that are relied on, one real no-op there and back. It steps down to smaller rings where
// RLIMIT_MEMLOCK leaves no room. Thread: any; nothing ties the ring to it, unless `pinned` is asked
// for.
#pragma once

#include <liburing.h>

#include "ringloop/driver.hpp"

namespace ringloop::uring {

inline constexpr unsigned buffer_group = 0;

struct ring {
    io_uring io{};
    io_uring_buf_ring* buffers = nullptr;
    std::size_t buffers_bytes = 0;
    unsigned buffers_mask = 0;
};

// Fills in the entries of `found`. Throws std::system_error saying which call failed, the likely
// cause and what to do; `missing` then names the opcodes that are absent.
[[nodiscard]] ring open_ring(const driver_config& config, std::byte* pool, capabilities& found,
                             std::vector<std::string>& missing);
void close_ring(ring& r) noexcept;

}  // namespace ringloop::uring
