// The connection that does not wait. A bounded piece at a time, so that others have their turns.
#include "flood.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace load {
namespace {
constexpr std::size_t block_bytes = 64 * 1024;
}

flood::flood(const options& wanted) : channel_(wanted.kind, wanted.address, nullptr) {
    for (std::size_t at = 0; at < block_bytes; ++at)
        block_ += static_cast<char>('a' + at * 31 % 26);
}

void flood::advance() {
    char chunk[block_bytes];
    const long count = channel_.read(chunk, sizeof chunk);
    if (count == 0) throw std::runtime_error("the server closed the flood");
    for (std::size_t at = 0; count > 0 && at < static_cast<std::size_t>(count);) {
        const std::size_t offset = (received_ + at) % block_bytes;
        const std::size_t size =
            std::min(static_cast<std::size_t>(count) - at, block_bytes - offset);
        if (std::memcmp(chunk + at, block_.data() + offset, size) != 0)
            throw std::runtime_error("an answer to the flood differs from what was sent");
        at += size;
    }
    if (count > 0) received_ += static_cast<std::size_t>(count);
    const std::size_t offset = sent_ % block_bytes;
    const long sent = channel_.write(block_.data() + offset, block_bytes - offset);
    if (sent > 0) sent_ += static_cast<std::size_t>(sent);
}

}  // namespace load
