// Reading and writing around the page cache (O_DIRECT): the memory and the offsets that it needs.
//
//     auto file = co_await fs::open("data", O_RDONLY | O_DIRECT);
//     auto need = co_await fs::direct_alignment_of(file);
//     fs::aligned_buffer buffer(1 << 20, need.memory);
//     co_await file.read_at(buffer.bytes(), 0);
//
// A read or write whose memory, offset or size is not a multiple of what the file needs fails with
// EINVAL; only the read that meets the end of the file may come back shorter.
// Thread: a scheduler's; a buffer is plain memory.
#pragma once

#include <cstdint>

#include "ringloop/fs/aligned_buffer.hpp"
#include "ringloop/fs/file.hpp"
#include "ringloop/task.hpp"

namespace ringloop::fs {

struct direct_alignment {
    std::uint32_t memory = 4096;  // bytes
    std::uint32_t offset = 4096;  // of offset and size
    bool known = false;  // else the kernel cannot say (before Linux 6.1, some file systems): 4096
                         // is enough for nearly every device
};
// Throws ringloop::error; EINVAL if the file has no O_DIRECT at all. Cancel loses nothing.
[[nodiscard]] task<direct_alignment> direct_alignment_of(const file& opened);

}  // namespace ringloop::fs
